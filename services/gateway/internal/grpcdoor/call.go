package grpcdoor

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/sluiceio/sluice/services/gateway/internal/budget"
)

// A call is what is known of one call from its headers on, and what it holds.
type call struct {
	door *Door
	conn *conn
	// The handler's, which ends when the client does not wait for an answer anymore.
	ctx context.Context
	// Everybody may make it: health, reflection. Its handler is not the door's, so it is
	// told by the end of ctx when the call has failed, and nobody else is.
	open bool
	// It is of many messages; the time between them does not count.
	streams bool
	secret  string
	// About what its metadata takes.
	headers int64

	// What the connection's reader knows: what grpc-go keeps of the call that its
	// handler has not read, and where in its messages it is.
	cost     int64
	messages messages
	// Nothing follows.
	whole bool

	// Closed when the call may hold more than its arrival.
	admitted chan struct{}
	// Closed when the message is whole, or too large for the stream's window.
	ready     chan struct{}
	readiness sync.Once
	// The message does not come as a whole unless the handler reads it. Set before
	// ready is closed.
	large bool
	// Ends with the stream, and when the call has failed.
	life context.Context
	end  context.CancelFunc

	// What the message holds, with the stream it comes on. It is used by one goroutine
	// at a time: who admits the call, the connection's reader until the message is
	// whole, the handler, and who leaves last.
	request budget.Hold
	// What the answer holds until it is given to grpc-go. The handler's.
	answer budget.Hold

	// The call keeps what it holds waiting: for a piece of a message, or for room for
	// one, which others may hold. And the message has begun and is not there.
	receiving, message budget.Stall

	mu struct {
		sync.Mutex
		// Who may still use what the call holds: the connection, the handler, the
		// reader while it makes room.
		users int
		// The client owes nothing of the message anymore.
		received bool
		// How many messages of a stream have been taken.
		taken int
		// Gives back the lobby's, or the open methods', part.
		depart func()
		// Why the call cannot go on.
		failure error
	}
}

type callKey struct{}

// callOf returns the call of a handler; nil when it did not come through the door.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// headerBytes is about what the metadata of a call takes.
func headerBytes(headers metadata.MD) (n int64) {
	for name, values := range headers {
		for _, value := range values {
			n += int64(len(name) + len(value))
		}
	}
	return n
}

// enter is for whoever uses what the call holds; it is false when that is given back
// already.
func (c *call) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.users == 0 {
		return false
	}
	c.mu.users++
	return true
}

// leave ends enter. The last gives everything back.
func (c *call) leave() {
	c.mu.Lock()
	c.mu.users--
	last, depart := c.mu.users == 0, c.mu.depart
	if last {
		c.mu.depart = nil
	}
	c.mu.Unlock()
	if !last {
		return
	}
	if depart != nil {
		depart()
	}
	c.request.Release()
	c.answer.Release()
	c.door.calls.Release(1)
	c.door.under.Add(-1)
}

// fail ends the call with an error, unless its message is there.
func (c *call) fail(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.failure != nil {
		return
	}
	c.mu.failure = reason
	c.receiving.End()
	c.message.End()
	c.end()
}

// failed returns why the call could not go on, or nil.
func (c *call) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.failure
}

// owes returns for how long the client has kept the call waiting.
func (c *call) owes() (stopped, since time.Duration) {
	if c.failed() != nil {
		return 0, 0
	}
	return c.receiving.Lasting(), c.message.Lasting()
}
