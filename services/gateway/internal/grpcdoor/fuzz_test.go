package grpcdoor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
)

// chopped gives a few bytes at a time.
type chopped struct {
	io.Reader
	piece int
}

func (c chopped) Read(p []byte) (int, error) { return c.Reader.Read(p[:min(len(p), c.piece)]) }
func (chopped) Close() error                 { return nil }

// FuzzBody: what grpc-go reads is what was sent, up to where the door ends the call;
// what is held is never more than the bytes that arrived account for; and a call that
// goes through was one message, whole.
func FuzzBody(f *testing.F) {
	f.Add([]byte{}, uint8(1), false)
	f.Add([]byte{0, 0, 0, 0, 0}, uint8(1), false)
	f.Add(append([]byte{0, 0, 0, 0, 3}, "abc"...), uint8(2), false)
	f.Add(append([]byte{1, 0, 0, 0, 3}, "abc"...), uint8(200), false)
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 1, 2}, uint8(3), false)
	f.Add([]byte{0, 0x7f, 0xff, 0xff, 0xff, 1, 2}, uint8(3), true)
	f.Add([]byte{0, 0, 0, 0, 1, 'a', 0, 0, 0, 0, 1, 'b'}, uint8(4), true)
	f.Add([]byte{0, 0, 0, 0, 1, 'a', 0, 0, 0, 0, 1, 'b'}, uint8(4), false)
	f.Add([]byte{0, 0, 1, 0, 0, 'a'}, uint8(4), false)
	f.Fuzz(func(t *testing.T, sent []byte, piece uint8, streams bool) {
		const budgetBytes = 8 << 20
		bytesOf := semaphore.NewWeighted(budgetBytes)
		d := New(Config{MaxMessageBytes: 1 << 20, BudgetBytes: budgetBytes}, Deps{Requests: bytesOf, Answers: bytesOf})
		c := &call{door: d, ctx: context.Background(), streams: streams, headers: http.Header{}, request: d.requests.Hold()}
		require.True(t, c.request.TryGrow(arrival))
		b := &body{call: c, source: chopped{bytes.NewReader(sent), int(piece) + 1}}
		var got bytes.Buffer
		p := make([]byte, 1+int(piece)%50)
		var err error
		inflates := false
		for err == nil {
			var n int
			n, err = b.Read(p)
			require.True(t, n > 0 || err != nil)
			got.Write(p[:n])
			// Twice what there is, or all that a message may inflate to.
			most := int64(arrival + 2*len(sent) + 2*len(p))
			if inflates = inflates || b.room > b.left+b.arrived; inflates {
				most = 1<<20 + arrival
			}
			require.LessOrEqual(t, c.request.Taken(), most)
		}
		require.True(t, bytes.HasPrefix(sent, got.Bytes()))
		if errors.Is(err, io.EOF) && !streams && got.Len() > 0 {
			require.Equal(t, sent, got.Bytes())
			require.Equal(t, len(sent), headSize+int(binary.BigEndian.Uint32(sent[1:])))
		}
		c.request.Release()
		require.True(t, bytesOf.TryAcquire(budgetBytes))
	})
}

// A panic where grpc-go reads, on a goroutine of its own, is the failure of the call.
func TestAPanicInABody(t *testing.T) {
	bytesOf := semaphore.NewWeighted(1 << 20)
	d := New(Config{MaxMessageBytes: 1 << 20, BudgetBytes: 1 << 20}, Deps{Logger: slog.New(slog.DiscardHandler), Requests: bytesOf, Answers: bytesOf})
	c := &call{door: d, ctx: t.Context(), request: d.requests.Hold()}
	b := &body{call: c} // has no source
	_, err := b.Read(make([]byte, 10))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, c.failed(), "internal error (id ")
	_, err = b.Read(make([]byte, 10))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
