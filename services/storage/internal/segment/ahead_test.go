package segment

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
)

// Zeros are written ahead of small appends, and not of large ones, which they
// would cost as many bytes again.
func TestZerosAreWrittenAheadOfSmallAppends(t *testing.T) {
	for name, c := range map[string]struct {
		sizes []int64 // by turns
		want  bool
	}{
		"small":                       {sizes: []int64{1 << 10}, want: true},
		"large":                       {sizes: []int64{aheadBelow}, want: false},
		"large with a small between":  {sizes: []int64{4 * aheadBelow, 4 * aheadBelow, 1 << 10}, want: false},
		"small with a large at first": {sizes: []int64{aheadBelow, 1 << 10, 1 << 10, 1 << 10}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			disk := memfs.New()
			file, err := disk.Create("log")
			require.NoError(t, err)
			scheduled := 0
			w := NewWriter(file, 0, &Ahead{
				Schedule: func(run func()) {
					scheduled++
					run()
				},
				Open:  func() (vfs.File, error) { return disk.Open("log") },
				Limit: 1 << 30,
			})
			for i := range 4 * aheadFrom {
				size := c.sizes[i%len(c.sizes)]
				require.NoError(t, w.Append([][]byte{make([]byte, size)}, size))
				require.NoError(t, w.Sync())
			}
			size, err := file.Size()
			require.NoError(t, err)
			require.Equal(t, c.want, scheduled > 0)
			require.Equal(t, c.want, size > w.End())
			require.NoError(t, w.Cut())
			require.NoError(t, w.Close())
		})
	}
}

// patience is how long a test waits for what will happen.
const patience = 10 * time.Second

func receive[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		require.FailNow(t, "it never came")
	}
	return v
}

// heldAhead is a writer whose zeros are written when a test says so.
type heldAhead struct {
	*Writer
	t    *testing.T
	disk *memfs.FS
	// begun receives when a write of zeros has begun, which then waits for a word on
	// goOn; with "panic" it does.
	begun chan struct{}
	goOn  chan string
	// done is closed when the background is over.
	done chan struct{}
}

func newHeldAhead(t *testing.T) *heldAhead {
	h := &heldAhead{t: t, disk: memfs.New(), begun: make(chan struct{}), goOn: make(chan string), done: make(chan struct{})}
	file, err := h.disk.Create("log")
	require.NoError(t, err)
	held := faultfs.New(h.disk, func(op faultfs.Op, _ string) error {
		if op != faultfs.WriteAt {
			return nil
		}
		select {
		case h.begun <- struct{}{}:
		case <-t.Context().Done():
			return context.Cause(t.Context())
		}
		select {
		case word := <-h.goOn:
			if word == "panic" {
				panic("a bug")
			}
			return nil
		case <-t.Context().Done():
			return context.Cause(t.Context())
		}
	})
	h.Writer = NewWriter(file, 0, &Ahead{
		Schedule: func(run func()) {
			go func() {
				defer close(h.done)
				_ = confine.Catch(func() error {
					run()
					return nil
				})
			}()
		},
		Open:  func() (vfs.File, error) { return held.Open("log") },
		Limit: 1 << 30,
	})
	for range aheadFrom {
		h.append(1)
		require.NoError(t, h.Sync())
	}
	return h
}

func (h *heldAhead) append(n int64) {
	h.t.Helper()
	require.NoError(h.t, receive(h.t, h.appending(n)))
}

// appending appends bytes that are not zeros, beside the test.
func (h *heldAhead) appending(n int64) <-chan error {
	done := make(chan error, 1)
	go func() { done <- h.Append([][]byte{bytes.Repeat([]byte{1}, int(n))}, n) }()
	return done
}

// end lets the background end, closes the file and looks for zeros in what was
// appended.
func (h *heldAhead) end() (size int64) {
	h.t.Helper()
	closed := make(chan error, 1)
	go func() { closed <- h.Close() }()
	for over := false; !over; {
		select {
		case <-h.begun:
		case h.goOn <- "":
		case <-h.done:
			over = true
		case <-time.After(patience):
			require.FailNow(h.t, "zeros are written without end")
		}
	}
	require.NoError(h.t, receive(h.t, closed))
	reader, err := h.disk.OpenRead("log")
	require.NoError(h.t, err)
	written := make([]byte, h.End())
	_, err = reader.ReadAt(written, 0)
	require.NoError(h.t, err)
	require.Equal(h.t, bytes.Repeat([]byte{1}, len(written)), written)
	size, err = reader.Size()
	require.NoError(h.t, err)
	return size
}

// An append that would reach zeros that are being written waits until they are there:
// zeros never come after a batch.
func TestAppendsBesideAWriteOfZeros(t *testing.T) {
	h := newHeldAhead(t)
	receive(t, h.begun) // from the end on
	waits := h.appending(10)
	require.Never(t, func() bool { return len(waits) > 0 }, 20*time.Millisecond, time.Millisecond)
	h.goOn <- ""
	require.NoError(t, receive(t, waits))
	receive(t, h.begun)
	h.append(10) // before what is being written now
	require.GreaterOrEqual(t, h.end(), int64(aheadWrite))
}

// However much is appended, it waits for the one write of zeros that has begun, and
// the next begins behind it.
func TestALargeAppendWaitsForOneWriteOfZeros(t *testing.T) {
	h := newHeldAhead(t)
	receive(t, h.begun)
	// Of zeros there would be one write after the other in the place of this.
	waits := h.appending(aheadFirst / 2 * 3)
	require.Eventually(t, func() bool {
		h.ahead.mu.Lock()
		defer h.ahead.mu.Unlock()
		return h.ahead.mu.claimed == h.End()+aheadFirst/2*3
	}, patience, time.Millisecond)
	h.goOn <- ""
	receive(t, h.begun)
	require.NoError(t, receive(t, waits), "while the next is under way")
	h.end()
}

// A write of zeros that panics keeps no append waiting.
func TestAWriteOfZerosThatPanics(t *testing.T) {
	h := newHeldAhead(t)
	receive(t, h.begun)
	waits := h.appending(10)
	h.goOn <- "panic"
	require.NoError(t, receive(t, waits))
	receive(t, h.done)
	h.append(10)
	h.end()
}
