package segment

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
)

// patience is how long a test waits for what will happen.
const patience = 10 * time.Second

// heldSyncs is a file whose syncs wait until the test lets each go on, with an
// error or nil.
type heldSyncs struct {
	begun chan struct{}
	goOn  chan error
}

func (h *heldSyncs) hook(op faultfs.Op, _ string) error {
	if op != faultfs.Datasync {
		return nil
	}
	h.begun <- struct{}{}
	return <-h.goOn
}

func newHeldWriter(t *testing.T) (*Writer, *heldSyncs) {
	held := &heldSyncs{begun: make(chan struct{}), goOn: make(chan error)}
	f, err := faultfs.New(memfs.New(), held.hook).Create("0.log")
	require.NoError(t, err)
	return NewWriter(f, 0, nil), held
}

func appendBytes(t *testing.T, w *Writer, n int64) {
	t.Helper()
	require.NoError(t, w.Append([][]byte{make([]byte, n)}, n))
}

func start(sync Syncing) <-chan error {
	done := make(chan error, 1)
	go func() { done <- sync.Run() }()
	return done
}

func receive[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		require.FailNow(t, "it never came")
	}
	return v
}

// What is appended while a sync runs is not durable when it ends; whoever waits
// for it syncs again, one after the other.
func TestSyncingVouchesForWhatWasAppendedBefore(t *testing.T) {
	w, held := newHeldWriter(t)
	appendBytes(t, w, 10)
	first := start(w.Syncing())
	receive(t, held.begun)
	appendBytes(t, w, 5)
	second := w.Syncing()
	secondDone, again := start(second), start(second)
	ended, err := second.Ended()
	require.False(t, ended)
	require.NoError(t, err)

	held.goOn <- nil
	require.NoError(t, receive(t, first))
	// The second begins after the first has ended, and only once.
	receive(t, held.begun)
	require.Equal(t, int64(10), w.Synced())
	held.goOn <- nil
	require.NoError(t, receive(t, secondDone))
	require.NoError(t, receive(t, again))
	require.Equal(t, int64(15), w.Synced())
	ended, err = second.Ended()
	require.True(t, ended)
	require.NoError(t, err)
	require.NoError(t, w.Sync(), "nothing is left to do")
}

// After a sync has failed no other can make up for it: the kernel tells an error
// once, and the next sync of the same file would say that all is well.
func TestSyncingFailsForGood(t *testing.T) {
	w, held := newHeldWriter(t)
	appendBytes(t, w, 10)
	before := w.Syncing()
	done := start(before)
	receive(t, held.begun)
	held.goOn <- nil
	require.NoError(t, receive(t, done))

	appendBytes(t, w, 5)
	failing := start(w.Syncing())
	receive(t, held.begun)
	appendBytes(t, w, 5)
	waiting := start(w.Syncing())
	broken := errors.New("broken")
	held.goOn <- broken
	for _, done := range []<-chan error{failing, waiting} {
		err := receive(t, done)
		require.ErrorIs(t, err, ErrSync)
		require.ErrorIs(t, err, broken)
	}
	require.ErrorIs(t, w.Sync(), broken)
	require.NoError(t, before.Run(), "that was durable before")
	require.Equal(t, int64(10), w.Synced())
	require.ErrorIs(t, w.Close(), broken, "for an owner who was told nothing yet")
}

// Close waits for a sync that runs, and one that comes later does not touch the
// file any more.
func TestCloseWaitsForASync(t *testing.T) {
	w, held := newHeldWriter(t)
	appendBytes(t, w, 10)
	running := start(w.Syncing())
	receive(t, held.begun)
	appendBytes(t, w, 5)
	late := w.Syncing()
	closed := make(chan error, 1)
	go func() { closed <- w.Close() }()
	require.Never(t, func() bool { return len(closed) > 0 }, 20*time.Millisecond, time.Millisecond)
	held.goOn <- nil
	require.NoError(t, receive(t, running))
	require.NoError(t, receive(t, closed))
	require.ErrorIs(t, late.Run(), fs.ErrClosed)
}
