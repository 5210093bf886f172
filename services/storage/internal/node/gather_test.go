package node

import (
	"context"
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
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// newGathering is a partition whose next sync waits for a word on hold, once that is
// asked for.
func newGathering(t *testing.T) (p *Partition, hold chan chan struct{}) {
	hold = make(chan chan struct{}, 1)
	topic := uuid.New()
	r := start(t, options(faultfs.New(memfs.New(), func(op faultfs.Op, name string) error {
		if op == faultfs.Datasync && strings.HasSuffix(name, ".log") {
			select {
			case over := <-hold:
				<-over
			default:
			}
		}
		return nil
	})))
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	p = r.partition(topic, 0)
	_, err := appendTo(p, batchOf(t, "0"))
	require.NoError(t, err)
	return p, hold
}

func beginAppend(t *testing.T, p *Partition) *Appending {
	t.Helper()
	a, err := p.Append(context.Background(), [][]byte{batchOf(t, "x")}, replica.NoOwner)
	require.NoError(t, err)
	return a
}

// answerMany has many appends answered at once, whose callers do not come back.
func answerMany(t *testing.T, p *Partition, hold chan chan struct{}) {
	t.Helper()
	over := make(chan struct{})
	hold <- over
	var appending []*Appending
	for range 3 * gatherMany {
		appending = append(appending, beginAppend(t, p))
	}
	close(over)
	for i, a := range appending {
		result, err := a.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(1+i), result.BaseOffset)
	}
}

// owned returns what the owner sees.
func owned[T any](t *testing.T, p *Partition, look func() T) (v T) {
	t.Helper()
	require.NoError(t, p.await(false, func(*replica.Replica) error {
		v = look()
		return nil
	}))
	return v
}

// Many callers, each of which waits for its own: offsets without gaps, and nobody is
// taken to be about who is not.
func TestManyCallers(t *testing.T) {
	p, _ := newGathering(t)
	const callers, each = 3 * gatherMany, 40
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		got   = []int64{0}
	)
	for range callers {
		group.Go(func() {
			for range each {
				result, err := appendTo(p, batchOf(t, "x"))
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
	require.Zero(t, p.outstanding.Load())
	p.queue.Lock()
	defer p.queue.Unlock()
	require.LessOrEqual(t, p.queue.callers, callers)
}

// Callers who were answered and do not come back are waited for once, and then no
// more for a while; whoever comes meanwhile is answered.
func TestCallersWhoDoNotComeBack(t *testing.T) {
	p, hold := newGathering(t)
	answerMany(t, p, hold)
	require.Eventually(t, func() bool {
		p.queue.Lock()
		defer p.queue.Unlock()
		return p.queue.callers == 0 && !p.queue.scheduled
	}, 10*time.Second, time.Millisecond, "the owner awaits nobody in the end")
	for range 5 {
		_, err := appendTo(p, batchOf(t, "x"))
		require.NoError(t, err)
	}
	require.Zero(t, p.outstanding.Load())
}

// Tasks end the wait for callers, and tasks without end keep no append waiting.
func TestTasksBesideAppends(t *testing.T) {
	p, hold := newGathering(t)
	answerMany(t, p, hold)
	require.Zero(t, owned(t, p, func() int64 { return p.outstanding.Load() }))

	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	for range 8 {
		busy.Go(func() {
			for ctx.Err() == nil {
				_ = p.await(false, func(*replica.Replica) error { return nil })
			}
		})
	}
	for range 50 {
		_, err := appendTo(p, batchOf(t, "x"))
		require.NoError(t, err)
	}
	cancel()
	busy.Wait()
}

// An owner that sleeps is woken by as many proposals as it waits for and not by
// fewer, by a task, and by the end of its patience.
func TestASleepingOwnerIsWoken(t *testing.T) {
	p, _ := newGathering(t)
	sleep := func(until int, patience time.Duration) <-chan bool {
		woken := make(chan bool, 1)
		p.do(task{run: func(*replica.Replica, error) { woken <- p.ownerSleep(until, patience) }}, false)
		return woken
	}
	asleep := func() bool {
		p.queue.Lock()
		defer p.queue.Unlock()
		return p.queue.sleeper != nil
	}
	woken := sleep(3, time.Minute)
	require.Eventually(t, asleep, 10*time.Second, time.Millisecond)
	appending := []*Appending{beginAppend(t, p), beginAppend(t, p)}
	require.True(t, asleep(), "two are not three")
	appending = append(appending, beginAppend(t, p))
	require.False(t, asleep())
	require.True(t, <-woken)
	for i, a := range appending {
		result, err := a.Wait(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(1+i), result.BaseOffset)
	}

	woken = sleep(3, time.Minute)
	require.Eventually(t, asleep, 10*time.Second, time.Millisecond)
	require.NoError(t, p.await(false, func(*replica.Replica) error { return nil }))
	require.True(t, <-woken)

	require.False(t, <-sleep(3, time.Millisecond))
	require.False(t, asleep())
}
