package binary

import (
	"bufio"
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever a server answers, a client takes no more memory than there are bytes.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x12\x00\x00\x00\x01\x81"+"\x00\x00\x00\x01"+"\x00\x00\x00\x00"+"\x00\x00\x00\x00\x00\x00\x00\x00"+"\x00"), false)
	f.Add([]byte("\x00\x00\x00\x19\x00\x00\x00\x01\x82"+"\x00\x00\x00\x00\x00\x00\x00\x00"+"\x00\x00\x00\x00\x00\x00\x00\x00"+"\xff\xff\xff\xff"), false)
	f.Add([]byte("\x00\x00\x00\x05\x00\x00\x00\x01\xff"), true)
	f.Add([]byte("\xff\xff\xff\xff\x00\x00\x00\x01\xff"), true)
	f.Fuzz(func(t *testing.T, b []byte, compressed bool) {
		s := &session{gzip: compressed, maxFrame: 1 << 16, in: bufio.NewReader(bytes.NewReader(b))}
		r, err := s.receive()
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(r.payload), 1<<16)
		refused := serverError(string(r.payload))
		require.Equal(t, string(r.payload), refused.Message)
		require.GreaterOrEqual(t, refused.RetryAfter, time.Duration(0))
		_ = refused.ambiguous()
		if placed, err := decodePlaced(r.payload, 1); err == nil {
			require.Len(t, placed, 1)
		}
		if fetched, err := decodeFetched(r.payload); err == nil {
			size := 8 + 8 + 4
			for _, record := range fetched.Records {
				size += fetchedRecord + len(record.Key) + len(record.Value)
			}
			require.Equal(t, len(r.payload), size)
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add([]byte("ES01\x00\x00\x00\x00\x01\x00\x00\x00\x00"))
	f.Add([]byte("ES01\x02\x00\x00\x00\x00\x00\x00\x00\x02no"))
	f.Add([]byte("ES01\x02\x00\x00\x00\x00\xff\xff\xff\xff"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = readReply(bytes.NewReader(b))
	})
}
