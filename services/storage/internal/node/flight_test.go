package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

const patience = 10 * time.Second

// flights is a partition whose syncs go on when the test says so, once hold is
// called.
type flights struct {
	*running
	t    *testing.T
	disk *memfs.FS
	p    *Partition

	mu struct {
		sync.Mutex
		held    bool
		begun   int // syncs
		written int // batches
	}
	goOn chan error
}

func newFlights(t *testing.T, flyFrom int) *flights {
	f := &flights{t: t, disk: memfs.New(), goOn: make(chan error)}
	topic := uuid.New()
	o := options(faultfs.New(f.disk, func(op faultfs.Op, name string) error {
		if !strings.Contains(name, topic.String()) || !strings.HasSuffix(name, ".log") {
			return nil
		}
		return f.hook(op)
	}))
	o.FlyFrom = flyFrom
	f.running = start(t, o)
	require.NoError(t, f.Place([]*persistv1.CatalogTopic{placement(topic, 1, map[string]string{"segment.bytes": "1000000"}, 1)}))
	f.p = f.partition(topic, 0)
	_, err := appendTo(f.p, batchOf(t, "0"))
	require.NoError(t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.held, f.mu.begun, f.mu.written = true, 0, 0
	return f
}

func (f *flights) hook(op faultfs.Op) error {
	f.mu.Lock()
	held := f.mu.held
	switch {
	case isWrite(op):
		f.mu.written++
	case isSync(op) && held:
		f.mu.begun++
	}
	f.mu.Unlock()
	if held && isSync(op) {
		return <-f.goOn
	}
	return nil
}

// waitFor waits for so many syncs to have begun, and writes.
func (f *flights) waitFor(syncs, writes int) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.mu.begun == syncs && f.mu.written == writes
	}, patience, time.Millisecond, "want %d syncs begun and %d writes", syncs, writes)
}

// append begins an append of one record.
func (f *flights) append(value string) *Appending {
	f.t.Helper()
	a, err := f.p.Append(context.Background(), [][]byte{batchOf(f.t, value)}, replica.NoOwner)
	require.NoError(f.t, err)
	return a
}

func (f *flights) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.held = false
}

func (f *flights) offset(a *Appending) int64 {
	f.t.Helper()
	result, err := a.Wait(f.t.Context())
	require.NoError(f.t, err)
	return result.BaseOffset
}

// While one group is synced the next is written, and no third. Each is answered
// when its own sync has ended, and not before; syncs do not run side by side.
func TestAGroupIsWrittenWhileAnotherIsSynced(t *testing.T) {
	f := newFlights(t, 1)
	first := f.append("1")
	f.waitFor(1, 1)
	second := f.append("2")
	f.waitFor(1, 2)
	third := f.append("3")
	require.Never(t, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.mu.begun > 1 || f.mu.written > 2
	}, 20*time.Millisecond, time.Millisecond)
	require.Equal(t, []string{"0"}, values(t, f.p), "nothing is shown before its sync")

	f.goOn <- nil
	require.Equal(t, int64(1), f.offset(first))
	f.waitFor(2, 3)
	require.Equal(t, []string{"0", "1"}, values(t, f.p))
	f.release()
	f.goOn <- nil
	require.Equal(t, int64(2), f.offset(second))
	require.Equal(t, int64(3), f.offset(third))
	require.Equal(t, []string{"0", "1", "2", "3"}, values(t, f.p))
}

// A power cut takes what is written and not synced, and nothing else.
func TestPowerCutWhileGroupsFly(t *testing.T) {
	f := newFlights(t, 1)
	first := f.append("1")
	f.waitFor(1, 1)
	f.append("2")
	f.waitFor(1, 2)
	after := f.disk.Crash(nil)
	f.release()
	close(f.goOn)
	require.Equal(t, int64(1), f.offset(first), "answered after the cut, not before")
	require.NoError(t, f.stop())
	f.running = start(t, options(after))
	require.Equal(t, []string{"0"}, values(t, f.partition(f.p.key.Topic, 0)))
}

// A sync that fails is the end of all that wait: of its own group, of the one that
// was written meanwhile, and of the partition, since nobody knows what the disk has.
func TestAFailedSyncWhileGroupsFly(t *testing.T) {
	f := newFlights(t, 1)
	appending := []*Appending{f.append("1")}
	f.waitFor(1, 1)
	appending = append(appending, f.append("2"))
	f.waitFor(1, 2)
	appending = append(appending, f.append("3"))
	f.release()
	f.goOn <- errors.New("broken")
	for i, a := range appending {
		_, err := a.Wait(t.Context())
		require.Error(t, err)
		// The third was never written.
		require.Equal(t, i < 2, errors.Is(err, replica.ErrUnknownOutcome), "%d: %v", i, err)
	}
	_, err := appendTo(f.p, batchOf(t, "4"))
	require.ErrorIs(t, err, ErrDisk)
	require.ErrorIs(t, f.p.failure.Load().err, raftlog.ErrSyncFailed)
	require.Zero(t, f.p.failure.Load().retry, "it is not tried again")
	require.True(t, f.memory.TryAcquire(f.options.MaxAppendBytes), "all memory is free")
	f.memory.Release(f.options.MaxAppendBytes)
}

// A stop while groups fly waits for them and answers.
func TestStopWhileGroupsFly(t *testing.T) {
	f := newFlights(t, 1)
	first := f.append("1")
	f.waitFor(1, 1)
	second := f.append("2")
	f.waitFor(1, 2)
	stopped := make(chan error, 1)
	go func() { stopped <- f.stop() }()
	f.release()
	close(f.goOn)
	require.Equal(t, int64(1), f.offset(first))
	require.Equal(t, int64(2), f.offset(second))
	require.NoError(t, <-stopped)
	f.running = start(t, options(f.disk))
	require.Equal(t, []string{"0", "1", "2"}, values(t, f.partition(f.p.key.Topic, 0)))
}

// A panic in a sync ends the partition, not the process.
func TestPanicInASyncThatFlies(t *testing.T) {
	f := newPanics(t)
	f.panicNext.Store(true)
	_, err := appendTo(f.p, batchOf(t, "x"))
	require.ErrorContains(t, err, "panic")
	// What was written may be there.
	f.goesOn(t, "before", "x")
}

// Tasks that never end keep no append from its sync.
func TestTasksDoNotPutOffASync(t *testing.T) {
	f := newFlights(t, 1000)
	f.release()
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	for range 8 {
		busy.Go(func() {
			for ctx.Err() == nil {
				_ = f.p.await(false, func(*replica.Replica) error { return nil })
			}
		})
	}
	for i := range 50 {
		require.Equal(t, int64(1+i), f.offset(f.append("x")))
	}
	cancel()
	busy.Wait()
}

// Tasks are done while groups fly: a disk that takes its time over one sync keeps
// nobody from what needs none.
func TestTasksWhileGroupsFly(t *testing.T) {
	f := newFlights(t, 1)
	first := f.append("1")
	f.waitFor(1, 1)
	require.NoError(t, f.p.await(false, func(*replica.Replica) error { return nil }))
	f.release()
	f.goOn <- nil
	require.Equal(t, int64(1), f.offset(first))
}

// Many callers, each of which waits for its own: offsets without gaps, whatever
// flies and whatever does not.
func TestManyCallersWithFlights(t *testing.T) {
	for _, flyFrom := range []int{1, 8, 1000} {
		t.Run(fmt.Sprint(flyFrom), func(t *testing.T) {
			f := newFlights(t, flyFrom)
			f.release()
			const callers, each = 40, 25
			var (
				group sync.WaitGroup
				mu    sync.Mutex
				got   = []int64{0}
			)
			for range callers {
				group.Go(func() {
					for range each {
						result, err := appendTo(f.p, batchOf(t, "x"))
						if err != nil {
							t.Errorf("append: %v", err)
							return
						}
						mu.Lock()
						got = append(got, result.BaseOffset)
						mu.Unlock()
					}
				})
			}
			group.Wait()
			slices.Sort(got)
			for i, offset := range got {
				require.Equal(t, int64(i), offset)
			}
			require.Len(t, got, 1+callers*each)
			f.p.queue.Lock()
			defer f.p.queue.Unlock()
			require.Zero(t, f.p.queue.flying)
			require.Nil(t, f.p.queue.group)
		})
	}
}

// Callers who were answered and do not come back are waited for once, and then no
// more for a while.
func TestCallersWhoDoNotComeBack(t *testing.T) {
	f := newFlights(t, 1000)
	first := f.append("1")
	f.waitFor(1, 1)
	appending := []*Appending{first}
	for i := range 3 * gatherMany {
		appending = append(appending, f.append(fmt.Sprint(i+2)))
	}
	f.release()
	f.goOn <- nil
	for i, a := range appending {
		require.Equal(t, int64(1+i), f.offset(a))
	}
	distrust := func() (n int) {
		require.NoError(t, f.p.await(false, func(*replica.Replica) error {
			n = f.p.distrust
			return nil
		}))
		return n
	}
	require.Eventually(t, func() bool { return distrust() > 0 }, patience, time.Millisecond)
	before := distrust()
	for range 5 {
		_, err := appendTo(f.p, batchOf(t, "x"))
		require.NoError(t, err)
	}
	require.LessOrEqual(t, distrust(), before)
}
