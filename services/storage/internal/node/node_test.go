package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const dir = "store"

// running is a node under test.
type running struct {
	*Node
	t    *testing.T
	stop func() error
}

func options(fsys vfs.FS) Options {
	return Options{
		FS: fsys, Dir: dir, ID: "n1",
		Logger:         slog.New(slog.DiscardHandler),
		Now:            time.Now,
		Defaults:       Defaults{SegmentBytes: 4096, MaxMessageBytes: 1 << 20},
		Workers:        8,
		MaxAwake:       16,
		MaxReadHandles: 16,
		IdleAfter:      time.Hour,
		MaxAppendBytes: 8 << 20,
	}
}

func start(t *testing.T, o Options) *running {
	t.Helper()
	n, err := Open(o)
	require.NoError(t, err)
	return run(t, n)
}

// run runs an opened node until stop, or the end of the test.
func run(t *testing.T, n *Node) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	var once sync.Once
	r := &running{Node: n, t: t}
	r.stop = func() (err error) {
		once.Do(func() {
			cancel()
			err = <-done
		})
		return err
	}
	t.Cleanup(func() { _ = r.stop() })
	return r
}

func placement(id uuid.UUID, partitions int, config map[string]string, version int64) *persistv1.CatalogTopic {
	t := &persistv1.CatalogTopic{TopicId: id[:], Name: "orders", Config: config, ConfigVersion: version}
	for i := range partitions {
		t.Partitions = append(t.Partitions, &persistv1.CatalogPartition{
			Partition: int32(i), ReplicaId: 1, VoterIds: []uint64{1}, VoterNodes: []string{"n1"},
		})
	}
	return t
}

func batchOf(t testing.TB, values ...string) []byte {
	t.Helper()
	b := recordbatch.NewBuilder(recordbatch.Options{})
	for _, value := range values {
		b.Append(1_700_000_000_000, nil, []byte(value), nil)
	}
	batch, err := b.Finish()
	require.NoError(t, err)
	return batch
}

func (r *running) partition(topic uuid.UUID, number int32) *Partition {
	r.t.Helper()
	p, err := r.Partition(replica.Key{Topic: topic, Partition: number})
	require.NoError(r.t, err)
	return p
}

func appendTo(p *Partition, batches ...[]byte) (replica.Result, error) {
	a, err := p.Append(context.Background(), batches, replica.NoOwner)
	if err != nil {
		return replica.Result{}, err
	}
	return a.Wait(context.Background())
}

// values reads all values of a partition.
func values(t *testing.T, p *Partition) []string {
	t.Helper()
	var all []string
	offset := int64(0)
	for {
		got, err := p.Fetch(t.Context(), Fetch{Offset: offset, MaxBytes: 1 << 20, Epoch: NoEpoch, LastEpoch: NoEpoch, Clamp: true})
		require.NoError(t, err)
		if len(got.Batches) == 0 && got.Next == offset {
			return all
		}
		rest := got.Batches
		for len(rest) > 0 {
			var batch []byte
			batch, rest, err = recordbatch.Next(rest)
			require.NoError(t, err)
			for record, err := range recordbatch.Records(batch, recordbatch.Limits{}) {
				require.NoError(t, err)
				if record.Offset >= got.Offset {
					all = append(all, string(record.Value))
				}
			}
		}
		offset = got.Next
	}
}

func TestAppendAndFetch(t *testing.T) {
	r := start(t, options(memfs.New()))
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 2, nil, 1)}))
	p := r.partition(topic, 0)

	require.Empty(t, values(t, p))
	result, err := appendTo(p, batchOf(t, "a", "b"))
	require.NoError(t, err)
	require.Equal(t, int64(0), result.BaseOffset)
	require.Equal(t, int64(2), result.EndOffset)
	result, err = appendTo(p, batchOf(t, "c"), batchOf(t, "d"))
	require.NoError(t, err)
	require.Equal(t, int64(2), result.BaseOffset)
	require.Equal(t, []string{"a", "b", "c", "d"}, values(t, p))
	require.Empty(t, values(t, r.partition(topic, 1)))

	_, err = r.Partition(replica.Key{Topic: topic, Partition: 2})
	require.ErrorIs(t, err, ErrUnknownPartition)
}

func TestConcurrentAppendsGetContiguousOffsets(t *testing.T) {
	r := start(t, options(memfs.New()))
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 3, nil, 1)}))
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		acked = map[int32]map[int64]string{0: {}, 1: {}, 2: {}}
	)
	for writer := range 8 {
		group.Go(func() {
			for i := range 60 {
				number := int32(i % 3)
				value := fmt.Sprintf("%d-%d", writer, i)
				result, err := appendTo(r.partition(topic, number), batchOf(t, value))
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
				mu.Lock()
				acked[number][result.BaseOffset] = value
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for number, offsets := range acked {
		got := values(t, r.partition(topic, number))
		require.Len(t, got, len(offsets))
		for offset, value := range offsets {
			require.Equal(t, value, got[offset])
		}
	}
}

func TestRestartKeepsEverything(t *testing.T) {
	for _, how := range []string{"clean", "kill"} {
		t.Run(how, func(t *testing.T) {
			fsys := memfs.New()
			r := start(t, options(fsys))
			topic := uuid.New()
			require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 4, nil, 1)}))
			var want []string
			for i := range 50 {
				value := fmt.Sprintf("v%d", i)
				_, err := appendTo(r.partition(topic, 1), batchOf(t, value))
				require.NoError(t, err)
				want = append(want, value)
			}
			if how == "clean" {
				require.NoError(t, r.stop())
			}
			o := options(fsys.Kill())
			again := start(t, o)
			require.Equal(t, want, values(t, again.partition(topic, 1)))
			require.Empty(t, values(t, again.partition(topic, 0)))
			result, err := appendTo(again.partition(topic, 1), batchOf(t, "after"))
			require.NoError(t, err)
			require.Equal(t, int64(50), result.BaseOffset)
		})
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	fsys := memfs.New()
	start(t, options(fsys))
	_, err := Open(options(fsys))
	require.ErrorIs(t, err, vfs.ErrLocked)
}

func TestFenceRefusesOlderOwners(t *testing.T) {
	r := start(t, options(memfs.New()))
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	p := r.partition(topic, 0)
	end, err := p.Fence(t.Context(), 7)
	require.NoError(t, err)
	require.Equal(t, int64(0), end)

	owned := func(epoch int64) error {
		a, err := p.Append(t.Context(), [][]byte{batchOf(t, "x")}, epoch)
		require.NoError(t, err)
		_, err = a.Wait(t.Context())
		return err
	}
	var fenced *replica.FencedError
	require.ErrorAs(t, owned(6), &fenced)
	require.Equal(t, int64(7), fenced.Fence)
	require.NoError(t, owned(7))
	_, err = p.Fence(t.Context(), 6)
	require.ErrorAs(t, err, &fenced)
	require.Equal(t, []string{"x"}, values(t, p))
}

func TestFenceSurvivesARestart(t *testing.T) {
	fsys := memfs.New()
	r := start(t, options(fsys))
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	_, err := r.partition(topic, 0).Fence(t.Context(), 7)
	require.NoError(t, err)

	again := start(t, options(fsys.Kill()))
	a, err := again.partition(topic, 0).Append(t.Context(), [][]byte{batchOf(t, "x")}, 6)
	require.NoError(t, err)
	_, err = a.Wait(t.Context())
	var fenced *replica.FencedError
	require.ErrorAs(t, err, &fenced)
}

func TestAdvanceStartDropsSegments(t *testing.T) {
	fsys := memfs.New()
	r := start(t, options(fsys))
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, map[string]string{"segment.bytes": "1024"}, 1)}))
	p := r.partition(topic, 0)
	for i := range 100 {
		_, err := appendTo(p, batchOf(t, fmt.Sprintf("value-%03d", i)))
		require.NoError(t, err)
	}
	before, err := p.Describe(t.Context())
	require.NoError(t, err)
	require.Greater(t, before.Segments, 5)

	start0, err := p.AdvanceStart(t.Context(), 60)
	require.NoError(t, err)
	require.Equal(t, int64(60), start0)
	after, err := p.Describe(t.Context())
	require.NoError(t, err)
	require.Less(t, after.Segments, before.Segments)
	require.Less(t, after.Bytes, before.Bytes)
	require.Equal(t, "value-060", values(t, p)[0])

	_, err = p.Fetch(t.Context(), Fetch{Offset: 59, MaxBytes: 1, Epoch: NoEpoch, LastEpoch: NoEpoch})
	require.ErrorIs(t, err, ErrOffsetOutOfRange)
	_, err = p.AdvanceStart(t.Context(), 101)
	require.ErrorIs(t, err, ErrOffsetOutOfRange)
	start0, err = p.AdvanceStart(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, int64(60), start0, "a start offset never goes back")

	require.NoError(t, r.stop())
	again := start(t, options(fsys.Kill()))
	require.Equal(t, "value-060", values(t, again.partition(topic, 0))[0])
	start0, err = again.partition(topic, 0).AdvanceStart(t.Context(), HighWatermarkOffset)
	require.NoError(t, err)
	require.Equal(t, int64(100), start0)
	require.Empty(t, values(t, again.partition(topic, 0)))
}

func TestConfigAppliesFromTheNextRoll(t *testing.T) {
	r := start(t, options(memfs.New()))
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, map[string]string{"segment.bytes": "1000000"}, 1)}))
	p := r.partition(topic, 0)
	write := func() {
		for range 40 {
			_, err := appendTo(p, batchOf(t, "some value that takes a little room"))
			require.NoError(t, err)
		}
	}
	write()
	d, err := p.Describe(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, d.Segments)
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, map[string]string{"segment.bytes": "1024"}, 2)}))
	write()
	d, err = p.Describe(t.Context())
	require.NoError(t, err)
	require.Greater(t, d.Segments, 3)

	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, map[string]string{"segment.bytes": "5"}, 1)}))
	require.Equal(t, int64(1024), p.Config().SegmentBytes, "an older version of a config never replaces a newer one")
}

func TestRemoveDeletesData(t *testing.T) {
	fsys := memfs.New()
	r := start(t, options(fsys))
	gone, kept := uuid.New(), uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(gone, 2, nil, 1), placement(kept, 1, nil, 1)}))
	p := r.partition(gone, 0)
	for _, topic := range []uuid.UUID{gone, kept} {
		_, err := appendTo(r.partition(topic, 0), batchOf(t, "x"))
		require.NoError(t, err)
	}
	require.NoError(t, r.Remove([]uuid.UUID{gone}, 1))
	_, err := r.Partition(p.Key())
	require.ErrorIs(t, err, ErrUnknownPartition)
	_, err = appendTo(p, batchOf(t, "late"))
	require.ErrorIs(t, err, ErrUnknownPartition)
	require.NoError(t, r.stop())

	names, err := fsys.List(dir + "/" + topicsFolder)
	require.NoError(t, err)
	require.Equal(t, []string{kept.String()}, names)
	again := start(t, options(fsys.Kill()))
	require.Equal(t, []string{"x"}, values(t, again.partition(kept, 0)))
}

func TestUnclaimedFolderIsSetAside(t *testing.T) {
	fsys := memfs.New()
	stray := uuid.NewString()
	require.NoError(t, fsys.MkdirAll(dir+"/"+topicsFolder+"/"+stray+"/0"))
	file, err := fsys.Create(dir + "/" + topicsFolder + "/" + stray + "/0/00000000000000000000.log")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	r := start(t, options(fsys))
	require.NoError(t, r.stop())

	left, err := fsys.List(dir + "/" + topicsFolder)
	require.NoError(t, err)
	require.Empty(t, left)
	aside, err := fsys.List(dir + "/" + unclaimedFolder)
	require.NoError(t, err)
	require.Len(t, aside, 1)
	inside, err := fsys.List(dir + "/" + unclaimedFolder + "/" + aside[0] + "/0")
	require.NoError(t, err)
	require.Len(t, inside, 1)
}

func TestInstallThatWasCutShortIsALog(t *testing.T) {
	fsys := memfs.New()
	r := start(t, options(fsys))
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	_, err := appendTo(r.partition(topic, 0), batchOf(t, "x"))
	require.NoError(t, err)
	folder := r.folder(r.partition(topic, 0).Key())
	require.NoError(t, r.stop())
	after := fsys.Kill()
	require.NoError(t, after.Rename(folder, folder+".install"))
	require.NoError(t, after.MkdirAll(folder+".staging"))

	again := start(t, options(after))
	require.Equal(t, []string{"x"}, values(t, again.partition(topic, 0)))
}

func TestIdlePartitionsSleepAndWake(t *testing.T) {
	o := options(memfs.New())
	o.IdleAfter = 10 * time.Millisecond
	r := start(t, o)
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	p := r.partition(topic, 0)
	for round := range 3 {
		_, err := appendTo(p, batchOf(t, fmt.Sprint(round)))
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			r.awake.mu.Lock()
			defer r.awake.mu.Unlock()
			return len(r.awake.mu.set) == 0
		}, 10*time.Second, time.Millisecond)
	}
	require.Equal(t, []string{"0", "1", "2"}, values(t, p))
}

func TestTooManyAwakePartitionsSleep(t *testing.T) {
	o := options(memfs.New())
	o.MaxAwake = 4
	r := start(t, o)
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 64, nil, 1)}))
	for round := range 2 {
		for i := range int32(64) {
			_, err := appendTo(r.partition(topic, i), batchOf(t, fmt.Sprint(round)))
			require.NoError(t, err)
		}
	}
	r.awake.mu.Lock()
	require.LessOrEqual(t, len(r.awake.mu.set), 4)
	r.awake.mu.Unlock()
	for i := range int32(64) {
		require.Equal(t, []string{"0", "1"}, values(t, r.partition(topic, i)))
	}
}

func TestWaiterWakesOnCommit(t *testing.T) {
	r := start(t, options(memfs.New()))
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 2, nil, 1)}))
	// An opening wakes too; this is about commits.
	_, err := appendTo(r.partition(topic, 1), batchOf(t, "w"))
	require.NoError(t, err)
	w := NewWaiter()
	defer w.Close()
	w.Watch(r.partition(topic, 0))
	w.Watch(r.partition(topic, 1))
	_, err = appendTo(r.partition(topic, 1), batchOf(t, "x"))
	require.NoError(t, err)
	select {
	case <-w.C:
	case <-time.After(10 * time.Second):
		t.Fatal("the waiter was never told")
	}
	require.Equal(t, []string{"w", "x"}, values(t, r.partition(topic, 1)))
}

func TestSubscriptionTellsOfPlacement(t *testing.T) {
	r := start(t, options(memfs.New()))
	s := r.Subscribe()
	defer s.Close()
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 3, nil, 1)}))
	<-s.C
	reports := s.Take()
	require.Len(t, reports, 3)
	for _, report := range reports {
		require.True(t, report.Leads)
		require.False(t, report.Damaged)
	}
	require.Empty(t, s.Take())
}

func TestPlacementWithReplicasIsRefused(t *testing.T) {
	r := start(t, options(memfs.New()))
	asked := placement(uuid.New(), 1, nil, 1)
	asked.Partitions[0].VoterIds = []uint64{1, 2, 3}
	asked.Partitions[0].VoterNodes = []string{"n1", "n2", "n3"}
	require.ErrorIs(t, r.Place([]*persistv1.CatalogTopic{asked}), ErrReplicas)
	require.Empty(t, r.Partitions())
}

func TestAppendThatCannotFitIsRefused(t *testing.T) {
	o := options(memfs.New())
	o.MaxAppendBytes = 100
	r := start(t, o)
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	_, err := r.partition(topic, 0).Append(t.Context(), [][]byte{make([]byte, 101)}, replica.NoOwner)
	require.ErrorIs(t, err, ErrOverloaded)
}

func TestEpochsAreChecked(t *testing.T) {
	r := start(t, options(memfs.New()))
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	p := r.partition(topic, 0)
	_, err := appendTo(p, batchOf(t, "x"))
	require.NoError(t, err)
	d, err := p.Describe(t.Context())
	require.NoError(t, err)
	current := int32(d.View.Term)
	var epochErr *EpochError
	require.ErrorAs(t, p.CheckEpoch(t.Context(), current-1), &epochErr)
	require.ErrorAs(t, p.CheckEpoch(t.Context(), current+1), &epochErr)
	require.NoError(t, p.CheckEpoch(t.Context(), current))
	end, err := p.EpochEnd(t.Context(), current, NoEpoch)
	require.NoError(t, err)
	require.Equal(t, EpochEnd{Epoch: current, End: 1}, end)
}

func TestListOffsets(t *testing.T) {
	r := start(t, options(memfs.New()))
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	p := r.partition(topic, 0)
	list := func(timestamp int64) int64 {
		t.Helper()
		listed, err := p.ListOffsets(t.Context(), timestamp, NoEpoch)
		require.NoError(t, err)
		return listed.Offset
	}
	require.Equal(t, int64(0), list(Latest))
	require.Equal(t, int64(-1), list(MaxTimestamp))
	b := recordbatch.NewBuilder(recordbatch.Options{})
	for _, timestamp := range []int64{100, 300, 200} {
		b.Append(timestamp, nil, []byte("x"), nil)
	}
	batch, err := b.Finish()
	require.NoError(t, err)
	_, err = appendTo(p, batch)
	require.NoError(t, err)
	require.Equal(t, int64(3), list(Latest))
	require.Equal(t, int64(0), list(Earliest))
	require.Equal(t, int64(0), list(EarliestLocal))
	require.Equal(t, int64(-1), list(LatestTiered))
	require.Equal(t, int64(1), list(MaxTimestamp))
	require.Equal(t, int64(0), list(50))
	require.Equal(t, int64(1), list(150))
	require.Equal(t, int64(-1), list(301))
}
