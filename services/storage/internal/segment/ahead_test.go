package segment

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/vfs"
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
