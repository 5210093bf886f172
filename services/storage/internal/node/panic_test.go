package node

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// panics is a node of which one partition's owner is made to panic.
type panics struct {
	*running
	clock *clock
	log   lockedBuffer
	topic uuid.UUID
	p     *Partition
	// panicNext has the next sync of a segment panic.
	panicNext atomic.Bool
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.Lock()
	defer b.Unlock()
	return b.Buffer.String()
}

func newPanics(t *testing.T) *panics {
	f := &panics{clock: newClock(), topic: uuid.New()}
	o := options(faultfs.New(memfs.New(), func(op faultfs.Op, name string) error {
		if op == faultfs.Datasync && strings.HasSuffix(name, ".log") && f.panicNext.Swap(false) {
			panic("a bug")
		}
		return nil
	}))
	o.Now, o.Logger = f.clock.now, slog.New(slog.NewTextHandler(&f.log, nil))
	f.running = start(t, o)
	require.NoError(t, f.Place([]*persistv1.CatalogTopic{placement(f.topic, 2, nil, 1)}))
	f.p = f.partition(f.topic, 0)
	_, err := appendTo(f.p, batchOf(t, "before"))
	require.NoError(t, err)
	return f
}

// goesOn: the process lives, the partition has failed, and after its pause it is
// what it was, with what came since.
func (f *panics) goesOn(t *testing.T, want ...string) {
	t.Helper()
	_, err := appendTo(f.partition(f.topic, 1), batchOf(t, "x"))
	require.NoError(t, err, "others take no notice")
	_, err = appendTo(f.p, batchOf(t, "too early"))
	require.ErrorIs(t, err, ErrDisk)
	require.Contains(t, f.log.String(), "panic.go", "the log has the stack")
	f.clock.advance(reopenPause)
	_, err = appendTo(f.p, batchOf(t, "after"))
	require.NoError(t, err)
	require.Equal(t, append(want, "after"), values(t, f.p))
}

// A proposal that ends in a panic before raft has seen it ends nobody else: all of
// its group are answered, once, and their memory is free.
func TestPanicInAProposal(t *testing.T) {
	f := newPanics(t)
	release := occupy(f.p)
	defer release()
	var waiting []*Appending
	for i := range 5 {
		// The third has no headers of what a producer has numbered.
		var by *replica.Sequenced
		if i == 2 {
			by = &replica.Sequenced{}
		}
		a, err := f.p.AppendSequenced(context.Background(), [][]byte{batchOf(t, "x")}, by)
		require.NoError(t, err)
		waiting = append(waiting, a)
	}
	release()
	for _, a := range waiting {
		_, err := a.Wait(t.Context())
		require.Error(t, err)
		require.ErrorContains(t, err, "panic")
	}
	require.True(t, f.memory.TryAcquire(f.options.MaxAppendBytes), "all memory is free")
	f.memory.Release(f.options.MaxAppendBytes)
	f.goesOn(t, "before")
}

// So does a panic in a task of the owner, and in a preparation.
func TestPanicInATask(t *testing.T) {
	t.Run("task", func(t *testing.T) {
		f := newPanics(t)
		err := f.p.await(false, func(*replica.Replica) error { panic("a bug") })
		require.ErrorContains(t, err, "a bug")
		f.goesOn(t, "before")
	})
	t.Run("with a group behind it", func(t *testing.T) {
		f := newPanics(t)
		release := occupy(f.p)
		defer release()
		f.p.do(task{run: func(*replica.Replica, error) { panic("a bug") }}, false)
		later := make(chan error, 1)
		f.p.do(task{run: func(_ *replica.Replica, err error) { later <- err }}, false)
		a, err := f.p.Append(context.Background(), [][]byte{batchOf(t, "x")}, replica.NoOwner)
		require.NoError(t, err)
		release()
		<-later
		_, err = a.Wait(t.Context())
		require.ErrorIs(t, err, ErrDisk)
		f.goesOn(t, "before")
	})
}

// An owner that panics while it opens the replica refuses what comes.
func TestPanicWhileOpening(t *testing.T) {
	f := newPanics(t)
	limits := f.p.topic.config.Load()
	f.p.topic.config.Store(nil)
	// Its log sleeps not, so it is closed first.
	require.ErrorContains(t, f.p.await(false, func(r *replica.Replica) error { return f.p.ownerFail(r, errPanic) }), "panic")
	f.clock.advance(reopenPause)
	_, err := appendTo(f.p, batchOf(t, "x"))
	require.ErrorContains(t, err, "panic")
	f.p.topic.config.Store(limits)
	f.goesOn(t, "before")
}

// A panic in the file system, below the replica, ends the partition alone.
func TestPanicInASync(t *testing.T) {
	f := newPanics(t)
	f.panicNext.Store(true)
	_, err := appendTo(f.p, batchOf(t, "x"))
	require.ErrorContains(t, err, "panic")
	// What was written may be there.
	f.goesOn(t, "before", "x")
}
