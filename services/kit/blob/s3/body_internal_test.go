package s3

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/kit/blob/blobtest"
)

func TestABodyThatHasEndedReadsNoMore(t *testing.T) {
	src := &counting{}
	b := newBody(t.Context(), src, 0, 100, 0)
	p := make([]byte, 10)
	_, err := b.Read(p)
	require.NoError(t, err)
	require.NoError(t, b.end())
	_, err = b.Read(p)
	require.ErrorIs(t, err, errEnded)
	require.Equal(t, 1, src.reads)
}

type counting struct{ reads int }

func (c *counting) ReadAt(p []byte, _ int64) (int, error) {
	c.reads++
	return len(p), nil
}

func TestABodyKeepsItsLastBytesIfTheyAreWrong(t *testing.T) {
	const data = "0123456789"
	sum := blobtest.Checksum([]byte(data))
	read := func(crc32c uint32) (string, error) {
		got, err := io.ReadAll(newBody(t.Context(), strings.NewReader(data), 0, int64(len(data)), crc32c))
		return string(got), err
	}
	got, err := read(sum)
	require.NoError(t, err)
	require.Equal(t, data, got)
	got, err = read(sum + 1)
	require.ErrorIs(t, err, blob.ErrChecksum)
	require.Less(t, len(got), len(data))
}

func FuzzContentRange(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string) {
		first, last, size, err := parseContentRange(text)
		if err != nil {
			require.Contains(t, err.Error(), "Content-Range")
			return
		}
		require.GreaterOrEqual(t, first, int64(0))
		require.LessOrEqual(t, first, last)
		require.Less(t, last, size)
	})
}
