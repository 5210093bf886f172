package raftlog

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
)

func TestFileCacheKeepsWhatIsUsed(t *testing.T) {
	mem := memfs.New()
	c := NewFileCache(2)
	opened := 0
	acquire := func(base int64) *sharedFile {
		f, err := c.acquire(fileKey{base: base}, func() (vfs.File, error) {
			opened++
			return mem.Create(fmt.Sprint(base))
		})
		require.NoError(t, err)
		return f
	}
	one, two, three := acquire(1), acquire(2), acquire(3)
	require.Equal(t, 3, c.Len(), "all are in use")
	require.Same(t, one, acquire(1))
	require.Equal(t, 3, opened)
	c.release(one)
	c.release(two)
	c.release(three)
	acquire(4)
	require.Equal(t, 2, c.Len(), "the least recently used that nobody uses are closed")
	require.Same(t, one, acquire(1), "one is used still")

	c.drop(fileKey{base: 1}, fileKey{base: 9})
	_, err := one.Size()
	require.NoError(t, err, "whoever holds a dropped file can use it")
	c.release(one)
	c.release(one)
	_, err = one.Size()
	require.Error(t, err, "the last one closes it")
}
