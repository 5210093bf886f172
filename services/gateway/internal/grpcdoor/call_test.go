package grpcdoor

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/tap"

	"github.com/sluiceio/sluice/services/gateway/internal/grants"
)

// strangers have good keys, and nobody knows them.
type strangers struct{ Backend }

func (strangers) Secret(_, _ []string) (string, error) { return "", nil }
func (strangers) Known(string) bool                    { return false }
func (strangers) Authenticate(context.Context, string) (grants.Caller, error) {
	return grants.Caller{}, nil
}

// arrived is a call that has just come to a door of its own.
func arrived(t *testing.T, b Backend, method string) *call {
	t.Helper()
	bytesOf := semaphore.NewWeighted(8 << 20)
	d := New(Config{MaxMessageBytes: 4 << 20, BudgetBytes: 8 << 20, BudgetTimeout: time.Hour, StallGrace: time.Hour},
		Deps{Logger: slog.New(slog.DiscardHandler), Backend: b, Requests: bytesOf, Answers: bytesOf})
	c := newConn(d, socket{})
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		require.Zero(t, d.requests.Taken())
	})
	call := newCall(t.Context(), c, method)
	c.opening = 1
	require.NoError(t, call.arrive(&tap.Info{FullMethodName: method}))
	return call
}

// send has a frame of data come.
func (c *call) send(b []byte, last bool) bool {
	if !c.expect(len(b)) {
		return false
	}
	c.observe(b)
	c.endFrame(last)
	return true
}

// messageOf has so many bytes, with its head.
func messageOf(length int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(length)), make([]byte, length)...)
}

// Who owes the rest of a message owes it wherever the call was when it began.
func TestWhatIsOwedAfterTheLobby(t *testing.T) {
	for name, c := range map[string]struct {
		message int
		sent    int
		owes    bool
	}{
		"a part of a small message": {100, 50, true},
		"a part of a large message": {1 << 20, 50, true},
		"a small message":           {100, 105, false},
		"nothing":                   {100, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			call := arrived(t, strangers{}, unaryMethod)
			if c.sent > 0 {
				require.True(t, call.send(messageOf(c.message)[:c.sent], !c.owes))
			}
			require.NoError(t, call.admit())
			stopped, since := call.owes()
			require.Equal(t, c.owes, stopped > 0)
			require.Equal(t, c.owes, since > 0)
		})
	}
}

// Who is cut off while he waits for room waits no more, since until he stops he keeps
// what he has.
func TestWhoIsCutOffWaitsNoMore(t *testing.T) {
	call := arrived(t, friends{}, unaryMethod)
	others := call.door.requests.Hold()
	require.True(t, others.TryGrow(8<<20-arrival-1))
	defer others.Release()
	message := messageOf(1 << 20)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for call.send(message[:maxFrame], false) {
			message = message[maxFrame:]
		}
	}()
	require.Eventually(t, func() bool {
		left := call.door.deps.Requests.TryAcquire(1)
		if left {
			call.door.deps.Requests.Release(1)
		}
		return !left
	}, time.Minute, time.Millisecond, "who waits is before all others")
	call.fail(errRequestsBusy)
	<-ended
	require.ErrorIs(t, call.failed(), errRequestsBusy)
}

// A call whose headers are its end has come to its end, over however many frames they
// are spread.
func TestHeadersThatEndTheCall(t *testing.T) {
	for name, headers := range map[string][]byte{
		"in one frame":  frameOf(frameHeaders, flagEnd|flagEndHeaders, 1, 1, 2),
		"in two frames": append(frameOf(frameHeaders, flagEnd, 1, 1), frameOf(frameContinuation, flagEndHeaders, 1, 2)...),
	} {
		t.Run(name, func(t *testing.T) {
			call := arrived(t, friends{}, unaryMethod)
			c := call.conn
			c.finish(1)
			call = newCall(t.Context(), c, unaryMethod)
			c.in.buffer = make([]byte, readBuffer)
			c.in.to = copy(c.in.buffer, sentOf(headers, frameOf(4, 0, 0)))
			buffer := make([]byte, preface+len(headers))
			for n := 0; n < len(buffer); {
				read, err := c.Read(buffer[n:])
				require.NoError(t, err)
				n += read
			}
			// The tap sees the call when its headers are there.
			require.NoError(t, call.arrive(&tap.Info{FullMethodName: unaryMethod}))
			_, err := c.Read(buffer)
			require.NoError(t, err)
			select {
			case <-call.ready:
			default:
				require.Fail(t, "the door waits for more of the call")
			}
		})
	}
}

// A polite connection waits for its client when it is closed, as one of TLS does.
type polite struct {
	net.Conn
	gone chan struct{}
}

func (p polite) Close() error {
	<-p.gone
	return nil
}

// A broken is the socket below.
type broken struct {
	net.Conn
	gone chan struct{}
}

func (b broken) Close() error {
	close(b.gone)
	return nil
}

// Who takes nothing is not waited for when he is cut off, or he holds up whoever waits
// for what he has, and the sweep.
func TestHangUpDoesNotWait(t *testing.T) {
	call := arrived(t, friends{}, unaryMethod)
	gone := make(chan struct{})
	c := newConn(call.door, broken{gone: gone})
	c.Conn = polite{gone: gone}
	a := &answer{conn: c}
	a.sending.Begin()
	c.send(a)
	c.stalledAnswer().end()
	require.True(t, c.mu.closed)
}
