package blobtest

import (
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/blob"
)

// Large stores an object of 64 MiB and reads it back, and fails if the store
// allocates as much: it is to send on what it reads.
func Large(t *testing.T, store blob.Store) {
	t.Helper()
	const size = 64 << 20
	src := Pattern(3)
	sum := src.Checksum(size)
	require.Less(t, allocated(func() {
		require.NoError(t, store.Put(t.Context(), "large", src, size, sum))
	}), uint64(size/2), "bytes allocated while 64 MiB are stored")

	got, want := make([]byte, 1<<20), make([]byte, 1<<20)
	require.Less(t, allocated(func() {
		for off := int64(0); off < size; off += int64(len(got)) {
			n, err := store.ReadAt(t.Context(), "large", got, off)
			require.NoError(t, err)
			_, err = src.ReadAt(want[:n], off)
			require.NoError(t, err)
			require.Equal(t, Checksum(want), Checksum(got), "at %d", off)
		}
	}), uint64(size/2), "bytes allocated while 64 MiB are read")
	n, err := store.ReadAt(t.Context(), "large", got, size-5)
	require.Equal(t, io.EOF, err)
	require.Equal(t, 5, n)

	// A replacement that fails at its end leaves it.
	require.ErrorIs(t, store.Put(t.Context(), "large", Pattern(4), size, sum), blob.ErrChecksum)
	_, err = store.ReadAt(t.Context(), "large", got, size/2)
	require.NoError(t, err)
	_, err = src.ReadAt(want, size/2)
	require.NoError(t, err)
	require.Equal(t, Checksum(want), Checksum(got))
	require.NoError(t, store.Delete(t.Context(), "large"))
	require.Empty(t, Names(t, store, ""))
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
