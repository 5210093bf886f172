package binproto

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestBufferClasses(t *testing.T) {
	require.Equal(t, len(buffers)-1, bufferClass(largestBuffer))
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, largestBuffer).Draw(t, "n")
		class := bufferClass(n)
		require.GreaterOrEqual(t, classSize(class), n)
		if class > 0 {
			require.Less(t, classSize(class-1), n, "the next smaller ones are too small")
			require.LessOrEqual(t, classSize(class), n+n/4)
		}
		require.Equal(t, class, bufferClass(classSize(class)))
		b := getBuffer(n)
		require.Equal(t, bufferSize(n), cap(b))
		require.Empty(t, b)
		putBuffer(b)
	})
}
