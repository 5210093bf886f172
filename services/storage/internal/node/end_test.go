package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// occupy has the partition's owner wait, so that a test can queue behind it. It
// returns when the owner is there; release lets it go on.
func occupy(p *Partition) (release func()) {
	there, free := make(chan struct{}), make(chan struct{})
	p.do(task{run: func(*replica.Replica, error) {
		close(there)
		<-free
	}}, false)
	<-there
	return sync.OnceFunc(func() { close(free) })
}

// What waits in the queue when a topic is removed is answered, and nothing of it
// is written any more.
func TestRemoveAnswersWhatWaits(t *testing.T) {
	for _, before := range []bool{false, true} {
		t.Run(fmt.Sprintf("written=%t", before), func(t *testing.T) {
			disk := memfs.New()
			r := start(t, options(disk))
			topic := uuid.New()
			require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
			p := r.partition(topic, 0)
			if before {
				_, err := appendTo(p, batchOf(t, "x"))
				require.NoError(t, err)
			}
			release := occupy(p)
			defer release()
			waiting, err := p.Append(t.Context(), [][]byte{batchOf(t, "y")}, replica.NoOwner)
			require.NoError(t, err)
			require.NoError(t, r.Remove([]uuid.UUID{topic}, 1))
			_, err = appendTo(p, batchOf(t, "z"))
			require.ErrorIs(t, err, ErrUnknownPartition)
			release()
			_, err = waiting.Wait(t.Context())
			require.ErrorIs(t, err, ErrUnknownPartition)

			require.NoError(t, r.stop())
			names, err := disk.List(dir + "/" + topicsFolder)
			require.NoError(t, err)
			require.Empty(t, names)
			r.awake.mu.Lock()
			require.Empty(t, r.awake.mu.set)
			r.awake.mu.Unlock()
		})
	}
}

// A reader that waits on a removed partition is woken and told.
func TestRemoveWakesReaders(t *testing.T) {
	for _, before := range []bool{false, true} {
		t.Run(fmt.Sprintf("written=%t", before), func(t *testing.T) {
			r := start(t, options(memfs.New()))
			topic := uuid.New()
			require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
			p := r.partition(topic, 0)
			if before {
				_, err := appendTo(p, batchOf(t, "x"))
				require.NoError(t, err)
			}
			w := NewWaiter()
			defer w.Close()
			w.Watch(p)
			require.NoError(t, r.Remove([]uuid.UUID{topic}, 1))
			for {
				select {
				case <-w.C:
				case <-time.After(10 * time.Second):
					t.Fatal("nobody was woken")
				}
				// The append's own wake may come after its answer.
				if _, err := p.Fetch(t.Context(), Fetch{Epoch: NoEpoch, LastEpoch: NoEpoch}); err != nil {
					require.ErrorIs(t, err, ErrUnknownPartition)
					break
				}
			}
		})
	}
}

// A placement that comes after the removal of its topic, since its caller gave up
// waiting for it, leaves no replica that nobody knows of: not in the same life of
// the process, nor in the next, nor where the removal came first of all.
func TestPlacementAfterTheRemovalIsRefused(t *testing.T) {
	disk := memfs.New()
	removed, never, other := uuid.New(), uuid.New(), uuid.New()
	late := []*persistv1.CatalogTopic{placement(removed, 1, nil, 1), placement(never, 1, nil, 1), placement(other, 1, nil, 1)}
	r := start(t, options(disk))
	require.NoError(t, r.Place(late[:1]))
	_, err := appendTo(r.partition(removed, 0), batchOf(t, "old"))
	require.NoError(t, err)
	require.NoError(t, r.Remove([]uuid.UUID{removed, never}, 7))

	for range 2 {
		var refused *RemovedError
		require.ErrorAs(t, r.Place(late), &refused)
		require.Equal(t, []uuid.UUID{removed, never}, refused.Topics)
		for _, id := range refused.Topics {
			_, err := r.Partition(replica.Key{Topic: id})
			require.ErrorIs(t, err, ErrUnknownPartition)
		}
		_, err := appendTo(r.partition(other, 0), batchOf(t, "x"))
		require.NoError(t, err, "the others of the request are placed")
		disk = disk.Crash(nil)
		require.NoError(t, r.stop())
		r = start(t, options(disk))
	}
	require.Equal(t, []string{"x", "x"}, values(t, r.partition(other, 0)))
}

// Data of a removed topic that cannot be deleted goes with the next start.
func TestRemovedDataThatCannotGo(t *testing.T) {
	disk := memfs.New()
	topic := uuid.New()
	r := start(t, options(faultfs.New(disk, faultfs.From(faultfs.RemoveAll, 1, errors.New("input/output error")))))
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	_, err := appendTo(r.partition(topic, 0), batchOf(t, "old"))
	require.NoError(t, err)
	require.NoError(t, r.Remove([]uuid.UUID{topic}, 1))
	require.NoError(t, r.stop())
	_, err = disk.Stat(r.topicFolder(topic.String()))
	require.NoError(t, err)

	healed := start(t, options(disk.Kill()))
	_, err = healed.options.FS.Stat(healed.topicFolder(topic.String()))
	require.ErrorIs(t, err, fs.ErrNotExist)
	names, err := healed.options.FS.List(dir)
	require.NoError(t, err)
	require.NotContains(t, names, unclaimedFolder)
}

// Appends, reads, placements and removals that meet a stop are answered, and all
// that was acknowledged is there after it, with a clean stop.
func TestStopUnderLoad(t *testing.T) {
	disk := memfs.New()
	r := start(t, options(disk))
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 4, nil, 1)}))
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		acked = map[int32]int{}
		busy  = make(chan struct{})
		once  sync.Once
	)
	for i := range int32(4) {
		p := r.partition(topic, i)
		group.Go(func() {
			for n := 0; ; n++ {
				_, err := appendTo(p, batchOf(t, fmt.Sprint(n)))
				if err != nil {
					if !errors.Is(err, ErrStopping) && !errors.Is(err, replica.ErrStopped) {
						t.Errorf("append: %v", err)
					}
					return
				}
				mu.Lock()
				acked[i]++
				mu.Unlock()
				if n == 20 {
					once.Do(func() { close(busy) })
				}
			}
		})
		group.Go(func() {
			for {
				if _, err := p.Fetch(context.Background(), Fetch{MaxBytes: 100, Epoch: NoEpoch, LastEpoch: NoEpoch}); err != nil {
					if !errors.Is(err, ErrStopping) {
						t.Errorf("fetch: %v", err)
					}
					return
				}
			}
		})
	}
	group.Go(func() {
		for {
			id := uuid.New()
			if err := errors.Join(r.Place([]*persistv1.CatalogTopic{placement(id, 1, nil, 1)}), r.Remove([]uuid.UUID{id}, 1)); err != nil {
				if !errors.Is(err, ErrStopping) {
					t.Errorf("place: %v", err)
				}
				return
			}
		}
	})
	<-busy
	require.NoError(t, r.stop())
	group.Wait()

	again := start(t, options(disk.Kill()))
	for i, n := range acked {
		p := again.partition(topic, i)
		require.Len(t, values(t, p), n)
	}
}

// A partition that is removed while its change waits to be reported is not
// reported, and a stop is no damage.
func TestEndsAreNoDamage(t *testing.T) {
	r := start(t, options(memfs.New()))
	gone, kept := uuid.New(), uuid.New()
	changes := r.Subscribe()
	defer changes.Close()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(gone, 1, nil, 1), placement(kept, 1, nil, 1)}))
	for _, topic := range []uuid.UUID{gone, kept} {
		_, err := appendTo(r.partition(topic, 0), batchOf(t, "x"))
		require.NoError(t, err)
	}
	require.NoError(t, r.Remove([]uuid.UUID{gone}, 1))
	require.NoError(t, r.stop())
	for _, report := range changes.Take() {
		require.Equal(t, kept, report.Key.Topic)
		require.False(t, report.Damaged)
		require.False(t, report.Leads, "a stopped node leads nothing")
	}
}

// Who has the answer to an append finds the records, and its fence and start
// offset in place.
func TestAnswerComesAfterTheView(t *testing.T) {
	r := start(t, options(memfs.New()))
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	p := r.partition(topic, 0)
	propose := func(proposal *replica.Proposal) (*replica.View, replica.Result) {
		var view *replica.View
		done := make(chan replica.Result, 1)
		proposal.OwnerEpoch = replica.NoOwner
		proposal.Done = func(result replica.Result) {
			view = p.open.Load().View()
			done <- result
		}
		p.propose(proposal, 0)
		result := <-done
		require.NoError(t, result.Err)
		return view, result
	}
	view, result := propose(&replica.Proposal{Batches: [][]byte{batchOf(t, "a", "b")}})
	require.Equal(t, result.EndOffset, view.HighWatermark)
	view, _ = propose(&replica.Proposal{Command: &persistv1.Command{Kind: &persistv1.Command_Fence{Fence: &persistv1.Fence{OwnerEpoch: 3}}}})
	require.Equal(t, int64(3), view.State.OwnerEpoch)
	view, _ = propose(&replica.Proposal{Command: &persistv1.Command{Kind: &persistv1.Command_AdvanceStart{AdvanceStart: &persistv1.AdvanceStart{Offset: 1}}}})
	require.Equal(t, int64(1), view.State.StartOffset)
}

// A fence holds for appends that come after it in one group, before it is
// applied.
func TestFenceHoldsWithinAGroup(t *testing.T) {
	r := start(t, options(memfs.New()))
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	p := r.partition(topic, 0)
	release := occupy(p)
	defer release()
	before, err := p.Append(t.Context(), [][]byte{batchOf(t, "old")}, 1)
	require.NoError(t, err)
	fence := p.command(&persistv1.Command{Kind: &persistv1.Command_Fence{Fence: &persistv1.Fence{OwnerEpoch: 2}}})
	late, err := p.Append(t.Context(), [][]byte{batchOf(t, "late")}, 1)
	require.NoError(t, err)
	after, err := p.Append(t.Context(), [][]byte{batchOf(t, "new")}, 2)
	require.NoError(t, err)
	release()

	_, err = before.Wait(t.Context())
	require.NoError(t, err)
	result, err := fence.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(1), result.EndOffset, "an older owner wrote up to here")
	var fenced *replica.FencedError
	_, err = late.Wait(t.Context())
	require.ErrorAs(t, err, &fenced)
	_, err = after.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"old", "new"}, values(t, p))
}
