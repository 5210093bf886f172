package grpcdoor

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/tap"
)

// A socket gives a few bytes at a time.
type socket struct {
	net.Conn
	sent  io.Reader
	piece int
}

func (s socket) Read(p []byte) (int, error) { return s.sent.Read(p[:min(len(p), s.piece)]) }
func (socket) Close() error                 { return nil }

// friends knows everybody.
type friends struct{ Backend }

func (friends) Secret(_, _ []string) (string, error) { return "", nil }
func (friends) Known(string) bool                    { return true }

const (
	unaryMethod = "/sluice.log.v1.LogService/Produce"
	openMethod  = "/grpc.health.v1.Health/Check"
	flowMethod  = "/grpc.health.v1.Health/Watch"
)

// sentOf puts what a client sends behind its preface.
func sentOf(frames ...[]byte) []byte {
	return append(make([]byte, preface), bytes.Join(frames, nil)...)
}

func frameOf(kind, flags byte, stream uint32, data ...byte) []byte {
	b := []byte{byte(len(data) >> 16), byte(len(data) >> 8), byte(len(data)), kind, flags}
	return append(binary.BigEndian.AppendUint32(b, stream), data...)
}

// framesOf finds the frames in the obvious way: their heads, and where they begin.
func framesOf(b []byte) (heads []frame, at []int) {
	for i := 0; i+frameHead <= len(b); {
		f := parseFrame(b[i:])
		heads, at = append(heads, f), append(at, i)
		i += frameHead + f.length
	}
	return heads, at
}

// FuzzConn: grpc-go reads what a client sent, but for the streams of data that is to
// be dropped; what is held is never more than the bytes that came account for, and is
// given back. A unary call whose message is whole had one.
func FuzzConn(f *testing.F) {
	message := []byte{0, 0, 0, 0, 3, 'a', 'b', 'c'}
	f.Add([]byte{}, uint8(1))
	f.Add(sentOf(frameOf(4, 0, 0), frameOf(frameData, flagEnd, 1, message...)), uint8(3))
	f.Add(sentOf(frameOf(frameData, 0, 1, message[:2]...), frameOf(frameData, 0, 3, message...), frameOf(frameData, flagEnd, 1, message[2:]...)), uint8(200))
	f.Add(sentOf(frameOf(frameData, 0, 1, append(message, message...)...), frameOf(frameData, 0, 1, 1)), uint8(7))
	f.Add(sentOf(frameOf(frameData, flagPadded, 1, append([]byte{4}, append(message, 0, 0, 0, 0)...)...), frameOf(frameReset, 0, 1, 0, 0, 0, 8)), uint8(7))
	f.Add(sentOf(frameOf(frameData, flagPadded, 5, 200, 1)), uint8(7))
	f.Add(sentOf(frameOf(frameData, 0, 1, 1, 0, 0, 0, 9, 1)), uint8(7))
	f.Add(sentOf(frameOf(frameData, 0, 5, 0, 0xff, 0xff, 0xff, 0xff), frameOf(frameData, 0, 5, 1)), uint8(7))
	f.Add(sentOf([]byte{0xff, 0xff, 0xff, frameData, 0, 0, 0, 0, 1}), uint8(7))
	f.Fuzz(func(t *testing.T, sent []byte, piece uint8) {
		const budgetBytes = 8 << 20
		requests, answers := semaphore.NewWeighted(budgetBytes), semaphore.NewWeighted(budgetBytes)
		d := New(Config{MaxMessageBytes: 1 << 20, BudgetBytes: budgetBytes, BudgetTimeout: time.Millisecond, StallGrace: time.Hour},
			Deps{Logger: slog.New(slog.DiscardHandler), Backend: friends{}, Requests: requests, Answers: answers})
		c := newConn(d, socket{sent: bytes.NewReader(sent), piece: int(piece) + 1})
		calls := make(map[uint32]*call)
		for stream, method := range map[uint32]string{1: unaryMethod, 3: openMethod, 5: flowMethod} {
			call := newCall(t.Context(), c, method)
			call.streams = method == flowMethod
			c.opening = stream
			require.NoError(t, call.arrive(&tap.Info{FullMethodName: method}))
			calls[stream] = call
		}
		var got bytes.Buffer
		p := make([]byte, 1+int(piece)*3)
		inflates := false
		for {
			n, err := c.Read(p)
			got.Write(p[:n])
			// Twice what there is, a buffer for each frame that has begun, and what one
			// message may inflate to.
			most := int64(arrival + 2*len(sent) + (len(sent)/frameHead+1)*(maxFrame+besideFrame))
			if inflates = inflates || calls[1].messages.compressed; inflates {
				most += 1 << 20
			}
			require.LessOrEqual(t, d.requests.Taken(), most)
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
			require.Positive(t, n)
		}
		want := bytes.Clone(sent[:got.Len()])
		dropped := map[uint32]bool{}
		if len(sent) > preface {
			heads, at := framesOf(sent[preface:])
			for i, head := range heads {
				b := got.Bytes()[preface+at[i]:]
				if head.kind == frameData && head.stream != nowhere && binary.BigEndian.Uint32(b[5:]) == nowhere {
					require.NotNil(t, calls[head.stream], "it is of no call")
					dropped[head.stream] = true
					copy(want[preface+at[i]+5:], b[5:frameHead])
				} else if head.kind == frameData {
					require.False(t, dropped[head.stream], "what follows is dropped too")
				}
			}
			var scanned []frame
			var s scanner
			for b := sent[preface:]; len(b) > 0; {
				n := min(len(b), int(piece)+1)
				s.scan(b[:n], func(f frame) { scanned = append(scanned, f) })
				b = b[n:]
			}
			require.Equal(t, heads, scanned)
		}
		require.True(t, bytes.Equal(want, got.Bytes()))
		if one := calls[1]; one.whole && one.failed() == nil {
			require.LessOrEqual(t, one.messages.begun, 1)
		}
		require.NoError(t, c.Close())
		require.True(t, requests.TryAcquire(budgetBytes))
		require.Zero(t, d.under.Load())
		require.True(t, d.open.TryAcquire(budgetBytes/lobbyPart))
	})
}

// Frames of a byte take more than a byte, and are paid for; those of methods that
// everybody may call are refused.
func TestFramesOfOneByteArePaidFor(t *testing.T) {
	const budgetBytes = 8 << 20
	bytesOf := semaphore.NewWeighted(budgetBytes)
	d := New(Config{MaxMessageBytes: 1 << 20, BudgetBytes: budgetBytes, StallGrace: time.Hour}, Deps{Backend: friends{}, Requests: bytesOf, Answers: bytesOf})
	c := newConn(d, socket{})
	for stream, method := range map[uint32]string{1: unaryMethod, 3: openMethod} {
		call := newCall(t.Context(), c, method)
		c.opening = stream
		require.NoError(t, call.arrive(&tap.Info{FullMethodName: method}))
		for range 10_000 {
			call.expect(1)
		}
		require.Equal(t, call.open, call.failed() != nil)
		require.Equal(t, !call.open, call.expect(1), "what comes of a call that failed is dropped")
		call.endFrame(true)
		require.False(t, call.expect(1), "and so is what comes after its end")
	}
	require.GreaterOrEqual(t, d.requests.Taken(), int64(10_000*besideFrame))
	require.NoError(t, c.Close())
	require.Zero(t, d.requests.Taken())
}

// What a stream's handler has taken counts no more.
func TestStreamsGoOn(t *testing.T) {
	bytesOf := semaphore.NewWeighted(8 << 20)
	d := New(Config{BudgetBytes: 8 << 20, StallGrace: time.Hour}, Deps{Requests: bytesOf, Answers: bytesOf})
	c := newConn(d, socket{})
	call := newCall(t.Context(), c, flowMethod)
	call.streams = true
	require.NoError(t, call.arrive(&tap.Info{FullMethodName: flowMethod}))
	message := append([]byte{0, 0, 0, 0x3f, 0}, make([]byte, 0x3f00)...)
	for i := range 100 {
		require.True(t, call.expect(len(message)), "message %d", i)
		call.observe(message)
		call.endFrame(false)
		call.mu.taken++
	}
	for range 8 {
		call.expect(len(message))
		call.observe(message)
	}
	require.ErrorIs(t, call.failed(), errTooLarge)
	require.Error(t, call.ctx.Err())
	require.NoError(t, c.Close())
}

// A panic where the connection is read is the failure of one call.
func TestAPanicInAMessage(t *testing.T) {
	bytesOf := semaphore.NewWeighted(8 << 20)
	d := New(Config{BudgetBytes: 8 << 20}, Deps{Logger: slog.New(slog.DiscardHandler), Requests: bytesOf, Answers: bytesOf})
	ctx, err := d.tap(context.Background(), &tap.Info{FullMethodName: unaryMethod})
	require.Nil(t, ctx)
	require.ErrorContains(t, err, "internal error (id ")
}
