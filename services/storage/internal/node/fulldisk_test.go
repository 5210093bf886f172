package node

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/cold/coldtest"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// queueTask has a call put a task into the queue behind occupy, and returns when it is
// there. What the call returns comes on the channel.
func queueTask(t *testing.T, p *Partition, call func() error) <-chan error {
	t.Helper()
	waiting := func() int {
		p.queue.Lock()
		defer p.queue.Unlock()
		return len(p.queue.tasks)
	}
	before := waiting()
	done := make(chan error, 1)
	go func() { done <- call() }()
	require.Eventually(t, func() bool { return waiting() > before }, 10*time.Second, time.Millisecond)
	return done
}

// What makes room waits in the same round as an append that is refused because there
// is none, and is not refused with it.
func TestAnAppendBehindATrimDoesNotRefuseIt(t *testing.T) {
	f := newFaulty(t, func(op faultfs.Op) bool { return op == faultfs.WritevAt }, syscall.ENOSPC)
	require.NoError(t, f.write())
	f.fault.next(1_000_000)
	require.ErrorIs(t, f.write(), replica.ErrUnknownOutcome)

	p := f.partition(f.topic, 0)
	release := occupy(p)
	defer release()
	trimmed := queueTask(t, p, func() error {
		_, _, err := p.trim()
		return err
	})
	a := beginAppend(t, p)
	release()
	require.NoError(t, <-trimmed)
	_, err := a.Wait(t.Context())
	require.ErrorIs(t, err, ErrNoSpace)
}

// Who deletes records to make room is not told that there is none.
func TestRecordsAreDeletedOnAFullDisk(t *testing.T) {
	f := newFaulty(t, func(op faultfs.Op) bool { return op == faultfs.WritevAt }, syscall.ENOSPC)
	for range 50 {
		require.NoError(t, f.write())
	}
	f.fault.next(1_000_000)
	require.ErrorIs(t, f.write(), replica.ErrUnknownOutcome)
	require.ErrorIs(t, f.write(), ErrNoSpace)
	p := f.partition(f.topic, 0)
	start, err := p.AdvanceStart(t.Context(), 45)
	require.NoError(t, err)
	require.EqualValues(t, 45, start)
	d, err := p.Describe(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, d.Segments, 2)
	require.Equal(t, f.acked[45:], values(t, p))
}

// Tasks that wait together on a full disk meet one failure: the first has the replica
// opened anew, and the others neither fail that one as well nor lose its files.
func TestTasksBehindOneThatFails(t *testing.T) {
	var handles, failing atomic.Int64
	fsys := faultfs.New(memfs.New(), func(op faultfs.Op, name string) error {
		switch {
		case !strings.Contains(name, "/journal"):
		case op == faultfs.Open, op == faultfs.Create, op == faultfs.OpenRead:
			handles.Add(1)
		case op == faultfs.Close:
			handles.Add(-1)
		case isWrite(op) && failing.Load() != 0:
			return syscall.ENOSPC
		}
		return nil
	})
	var log lockedBuffer
	clock, topic := newClock(), uuid.New()
	o := options(fsys)
	o.Now, o.Logger = clock.now, slog.New(slog.NewTextHandler(&log, nil))
	r := start(t, o)
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	_, err := appendTo(r.partition(topic, 0), batchOf(t, "a"))
	require.NoError(t, err)
	require.NoError(t, r.stop())

	// Its first task elects it.
	r = start(t, o)
	p := r.partition(topic, 0)
	require.Equal(t, []string{"a"}, values(t, p))
	failing.Store(1)
	release := occupy(p)
	defer release()
	var prepared []<-chan error
	for range 3 {
		prepared = append(prepared, queueTask(t, p, func() error {
			_, err := p.Prepare(t.Context(), 1<<62|1, []int64{1})
			return err
		}))
	}
	release()
	for _, done := range prepared {
		require.ErrorIs(t, <-done, ErrNoSpace)
	}
	require.Equal(t, []string{"a"}, values(t, p))
	require.Equal(t, 1, strings.Count(log.String(), "partition has failed"))
	require.NoError(t, r.stop())
	require.Zero(t, handles.Load(), "all files are closed")
}

// A command that goes past the queue is counted like others: of who is about the owner
// would have a wrong idea else.
func TestCommandsPastTheQueueAreCounted(t *testing.T) {
	f := newFaulty(t, isWrite, syscall.ENOSPC)
	for range 50 {
		require.NoError(t, f.write())
	}
	require.NoError(t, f.Place([]*persistv1.CatalogTopic{placement(f.topic, 2, map[string]string{"retention.bytes": "1"}, 2)}))
	failures, err := f.RunPass(t.Context(), Retention, true)
	require.NoError(t, err)
	require.Empty(t, failures)
	p := f.partition(f.topic, 0)
	d, err := p.Describe(t.Context())
	require.NoError(t, err)
	require.NotZero(t, d.View.State.StartOffset)
	require.Zero(t, owned(t, p, func() int64 { return p.outstanding.Load() }))
}

// The disk is asked again although the clock was put back, and one that says nothing
// is not said to have space.
func TestTheReserveIsLookedAtAgain(t *testing.T) {
	clock, free, log := newClock(), int64(0), lockedBuffer{}
	var gone error
	r := newReserve(Options{
		ID: "n1", Now: clock.now, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Disk: Disk{MinFreeBytes: 10, Space: func() (vfs.Space, error) { return vfs.Space{Free: free}, gone }},
	})
	require.ErrorIs(t, r.refusal(), ErrNoSpace)
	free = 10
	require.ErrorIs(t, r.refusal(), ErrNoSpace, "it was asked just now")
	clock.advance(-time.Hour)
	require.NoError(t, r.refusal())

	free = 9
	clock.advance(spaceInterval)
	require.ErrorIs(t, r.refusal(), ErrNoSpace)
	gone = syscall.EIO
	for range 2 {
		clock.advance(spaceInterval)
		require.NoError(t, r.refusal())
	}
	require.Equal(t, 1, strings.Count(log.String(), "appends go on\" free_bytes"))
	require.Equal(t, 1, strings.Count(log.String(), "are not known"))
}

// Cold storage takes what fills the disk: its commands are not refused either.
func TestSegmentsGoToColdStorageFromAFullDisk(t *testing.T) {
	var full atomic.Bool
	c := &coldTopic{t: t, id: uuid.New(), store: coldtest.New(), clock: newClock()}
	c.start(faultfs.New(memfs.New(), func(op faultfs.Op, _ string) error {
		if op == faultfs.WritevAt && full.Load() {
			return syscall.ENOSPC
		}
		return nil
	}))
	require.NoError(t, c.Place([]*persistv1.CatalogTopic{placement(c.id, 1, map[string]string{"retention.ms": "-1"}, 1)}))
	c.write(7)
	full.Store(true)
	_, err := appendTo(c.p(), batchOf(t, "x"))
	require.ErrorIs(t, err, replica.ErrUnknownOutcome)
	_, err = appendTo(c.p(), batchOf(t, "x"))
	require.ErrorIs(t, err, ErrNoSpace)
	c.tierUp()
	require.Equal(t, 1, c.describe().Segments, "the active one is left")
	c.requireWhole()
	c.requireTidy()
}

// A partition whose folder finds no room is as empty as before: it is read, led, and
// written to as soon as there is room.
func TestAFolderThatFindsNoRoom(t *testing.T) {
	f := newFaulty(t, func(op faultfs.Op) bool { return op == faultfs.MkdirAll || op == faultfs.Create }, syscall.ENOSPC)
	f.fault.next(1_000_000)
	p := f.partition(f.topic, 0)
	require.ErrorIs(t, f.write(), ErrNoSpace)
	require.Empty(t, values(t, p))
	require.ErrorIs(t, p.RefusesAppends(), ErrNoSpace)
	require.Equal(t, report{Leads: true}, p.report())
	require.Equal(t, Failed{NoSpace: 1}, f.Failed())
	f.untouched()
	f.fault.next(0)
	f.clock.advance(reopenPause)
	require.NoError(t, f.write())
	require.Equal(t, Failed{}, f.Failed())
}

// Readers who come while a replica is opened anew wait for that.
func TestReadersDoNotSeeThatAReplicaIsOpenedAnew(t *testing.T) {
	f := newFaulty(t, func(op faultfs.Op) bool { return op == faultfs.WritevAt }, syscall.ENOSPC)
	require.NoError(t, f.write())
	p := f.partition(f.topic, 0)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, err := p.Describe(t.Context()); err != nil {
				done <- err
				return
			}
		}
	}()
	f.fault.next(1_000_000)
	for range 100 {
		require.Error(t, f.write())
		f.clock.advance(reopenPause)
	}
	close(stop)
	require.NoError(t, <-done)
}

// One that nobody appends to any more is not told of for ever.
func TestNoSpaceIsNotToldForEver(t *testing.T) {
	f := newFaulty(t, func(op faultfs.Op) bool { return op == faultfs.WritevAt }, syscall.ENOSPC)
	require.NoError(t, f.write())
	f.fault.next(1)
	require.Error(t, f.write())
	// The owner notes it after the answer.
	require.Equal(t, Failed{NoSpace: 1}, owned(t, f.partition(f.topic, 0), f.Failed))
	f.clock.advance(noSpaceTold)
	require.Equal(t, Failed{NoSpace: 1}, f.Failed())
	f.clock.advance(reopenPause)
	require.Equal(t, Failed{}, f.Failed())
}
