package binproto

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
)

// A greeting is read, refused or broken off, and takes no more than it says.
func FuzzGreeting(f *testing.F) {
	f.Add([]byte("ES01\x00\x00\x00\x01\x00\x00\x00\x03abc"))
	f.Add([]byte("ES01\x00\x00\x00\x00\xff\xff\xff\xff"))
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		g, err := readGreeting(r)
		if err != nil {
			var refused *refusal
			if !errors.As(err, &refused) {
				require.True(t, errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF), err)
			}
			return
		}
		again := append([]byte("ES01"), binary.BigEndian.AppendUint32(nil, g.features)...)
		again = append(binary.BigEndian.AppendUint32(again, uint32(len(g.token))), g.token...)
		require.Equal(t, b[:len(b)-r.Len()], again)
	})
}

// A payload that is taken is, written again, the same payload.
func FuzzProduce(f *testing.F) {
	f.Add([]byte("\xff\xff\xff\xff" + "\x00\x00\x00\x01" + "\xff\xff\xff\xff" + "\x00\x00\x00\x01x" + "\xff\xff\xff\xff" + "\x80\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x01p" + "\x00\x00\x00\x01" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x07" + "\x00\x00\x00\x00\x00\x00\x00\x2a"))
	f.Add([]byte("\xff\xff\xff\xff" + "\xff\xff\xff\xff"))
	f.Add([]byte("\xff\xff\xff\xfe"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := &produce{body: b}
		if err := p.parse(1000); err != nil {
			return
		}
		var again []byte
		bytes := func(b []byte) {
			if b == nil {
				again = binary.BigEndian.AppendUint32(again, 0xffffffff)
				return
			}
			again = append(binary.BigEndian.AppendUint32(again, uint32(len(b))), b...)
		}
		if p.producer == nil {
			bytes(nil)
		} else {
			bytes([]byte(*p.producer))
		}
		again = binary.BigEndian.AppendUint32(again, uint32(len(p.records)))
		for _, r := range p.records {
			bytes(r.Key)
			require.NotNil(t, r.Value)
			bytes(r.Value)
			again = binary.BigEndian.AppendUint32(again, uint32(r.Partition))
			sequence := int64(noSequence)
			if r.Sequenced {
				sequence = r.Sequence
			}
			again = binary.BigEndian.AppendUint64(again, uint64(sequence))
		}
		require.Equal(t, b, again)
	})
}

// Whatever follows the handshake, each frame that is there gets one answer, which
// is a whole frame, until the connection ends.
func FuzzConnection(f *testing.F) {
	ping := []byte("\x00\x00\x00\x05\x00\x00\x00\x01\x03")
	consume := []byte("\x00\x00\x00\x1c\x00\x00\x00\x02\x02" + "\x00\x01t" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x64" + "\x00\x10\x00\x00")
	f.Add(append(ping, consume...), false)
	f.Add([]byte("\x00\x00\x00\x05\x00\x00\x00\x01\x7f"), false)
	f.Add([]byte("\xff\xff\xff\xff\x00\x00\x00\x01\x01"), false)
	packed := func(payload string) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = io.WriteString(w, payload)
		_ = w.Close()
		head := binary.BigEndian.AppendUint32(nil, uint32(headSize+out.Len()))
		return append(append(head, "\x00\x00\x00\x03\x01"...), out.Bytes()...)
	}
	f.Add(packed("\x00\x01t"+"\xff\xff\xff\xff"+"\x00\x00\x00\x01"+"\xff\xff\xff\xff"+"\x00\x00\x00\x01x"+"\xff\xff\xff\xff"+"\x80\x00\x00\x00\x00\x00\x00\x00"), true)
	f.Add(packed("\x00\x01t"+string(make([]byte, 1<<20))), true)
	f.Fuzz(func(t *testing.T, b []byte, compressed bool) {
		requests, answers := semaphore.NewWeighted(16<<20), semaphore.NewWeighted(16<<20)
		d := New(Config{
			MaxPayloadBytes: 64 << 10, MaxRecords: 100, MaxFetchRecords: 100, MaxFetchBytes: 1 << 20, BudgetBytes: 16 << 20, ConnectionBytes: 1 << 20,
			IdleTimeout: time.Minute, WriteTimeout: time.Minute, HandshakeTimeout: time.Minute, BudgetTimeout: time.Minute,
			FrameTimeout: time.Minute, StallTimeout: time.Minute,
		}, Deps{Logger: slog.New(slog.DiscardHandler), Backend: nothing{}, Requests: requests, Answers: answers})
		stream := &streamConn{in: bytes.NewReader(b)}
		c := newConn(t.Context(), d, stream, addressOf(nil))
		c.gzip = compressed
		c.serve()
		for out := stream.out.Bytes(); len(out) > 0; {
			require.GreaterOrEqual(t, len(out), frameHead)
			n := int(binary.BigEndian.Uint32(out))
			require.GreaterOrEqual(t, n, headSize)
			require.LessOrEqual(t, n, len(out)-lengthSize)
			require.Contains(t, []byte{0x81, 0x82, 0x83, 0xff}, out[lengthSize+4])
			out = out[lengthSize+n:]
		}
		require.True(t, requests.TryAcquire(16<<20), "bytes of requests are given back")
		require.True(t, answers.TryAcquire(16<<20), "bytes of answers are given back")
	})
}

// nothing is a backend that takes all and has nothing.
type nothing struct{}

func (nothing) Authenticate(context.Context, string) (grants.Caller, error) {
	return grants.CallerOf(&registryv1.Principal{Admin: true}), nil
}

func (nothing) ProduceAll(_ context.Context, _ grants.Caller, _ string, requests []backend.WriteRequest) []backend.WriteResult {
	results := make([]backend.WriteResult, len(requests))
	for i, r := range requests {
		results[i].Placed = make([]backend.Placed, len(r.Records))
	}
	return results
}

func (nothing) Consume(_ context.Context, _ grants.Caller, r backend.Read) (backend.Fetched, error) {
	return backend.Fetched{NextOffset: r.Offset}, nil
}

// streamConn is a connection on which all that a client sends is there.
type streamConn struct {
	in  *bytes.Reader
	out bytes.Buffer
}

func (c *streamConn) Read(b []byte) (int, error)       { return c.in.Read(b) }
func (c *streamConn) Write(b []byte) (int, error)      { return c.out.Write(b) }
func (c *streamConn) Close() error                     { return nil }
func (c *streamConn) LocalAddr() net.Addr              { return nil }
func (c *streamConn) RemoteAddr() net.Addr             { return nil }
func (c *streamConn) SetDeadline(time.Time) error      { return nil }
func (c *streamConn) SetReadDeadline(time.Time) error  { return nil }
func (c *streamConn) SetWriteDeadline(time.Time) error { return nil }
