package vfs

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The kernel takes as much of a gathered write as it likes; a disk does so too
// seldom for a test to wait for it.
func TestCursorOverShortWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bufs := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 5), 0, 20).Draw(t, "bufs")
		before := make([][]byte, len(bufs))
		copy(before, bufs)
		left := cursor{bufs: bufs}
		limit := rapid.IntRange(1, 4).Draw(t, "limit")
		var written []byte
		for {
			window := left.next(limit)
			if len(window) == 0 {
				break
			}
			require.LessOrEqual(t, len(window), limit)
			taken := bytes.Join(window, nil)
			n := rapid.IntRange(1, len(taken)).Draw(t, "written")
			written = append(written, taken[:n]...)
			left.advance(n)
		}
		require.Equal(t, string(bytes.Join(bufs, nil)), string(written))
		require.Equal(t, before, bufs, "the caller's slices are left alone")
	})
}
