package segment

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

// While zeros are being written an append before them goes on, and one that would
// reach them waits until they are there: zeros never come after a batch.
func TestAppendsBesideAWriteOfZeros(t *testing.T) {
	disk := memfs.New()
	file, err := disk.Create("log")
	require.NoError(t, err)
	begun, goOn := make(chan struct{}), make(chan struct{})
	var first sync.Once
	held := faultfs.New(disk, func(op faultfs.Op, _ string) error {
		if op == faultfs.WriteAt {
			first.Do(func() {
				begun <- struct{}{}
				<-goOn
			})
		}
		return nil
	})
	done := make(chan struct{})
	w := NewWriter(file, 0, &Ahead{
		Schedule: func(run func()) {
			go func() {
				defer close(done)
				run()
			}()
		},
		Open:  func() (vfs.File, error) { return held.Open("log") },
		Limit: 1 << 30,
	})
	batch := func(n int64) [][]byte { return [][]byte{bytes.Repeat([]byte{1}, int(n))} }
	for range aheadFrom {
		require.NoError(t, w.Append(batch(10), 10))
		require.NoError(t, w.Sync())
	}
	receive(t, begun) // from the end on
	waits := make(chan error, 1)
	go func() { waits <- w.Append(batch(10), 10) }()
	require.Never(t, func() bool { return len(waits) > 0 }, 20*time.Millisecond, time.Millisecond)
	goOn <- struct{}{}
	require.NoError(t, receive(t, waits))
	receive(t, done)
	require.NoError(t, w.Append(batch(10), 10), "there are zeros")
	require.NoError(t, w.Close())

	written := make([]byte, w.End())
	reader, err := disk.OpenRead("log")
	require.NoError(t, err)
	_, err = reader.ReadAt(written, 0)
	require.NoError(t, err)
	require.Equal(t, batch(w.End())[0], written)
	size, err := reader.Size()
	require.NoError(t, err)
	require.GreaterOrEqual(t, size, int64(aheadWrite))
}
