package grpcdoor

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sluiceio/sluice/services/gateway/internal/budget"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// A call is what is known of one call from its headers on, and what it holds.
type call struct {
	door *Door
	// Ends when the client does not wait for an answer anymore, or is not waited for.
	ctx    context.Context
	cancel context.CancelFunc
	// Everybody may make it: health, reflection.
	open bool
	// It is of many messages; the time between them does not count.
	streams bool
	headers http.Header

	// Why nothing of it is read. Set before grpc-go hears of the call.
	refusal error

	// What its message holds, with the stream it comes on; and its answer. Each is
	// used by one goroutine at a time: in their turn grpc-go's reader of the body, the
	// handler, and who leaves last.
	request, answer budget.Hold

	// The call keeps what it holds waiting: for a piece of a message, or for room for
	// one, which others may hold; for room in the client's window. And the message has
	// begun and is not there.
	receiving, sending, message budget.Stall

	mu struct {
		sync.Mutex
		// Who may still use what the call holds: net/http's goroutine, and grpc-go's
		// handler, which may outlive it.
		users int
		// Nil once net/http's goroutine is done with it.
		control *http.ResponseController
		// Why it was cut off.
		failure error
	}
}

type callKey struct{}

// callOf returns the call of a handler; nil when it did not come through the door.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// publicPrefix begins the methods that need a key.
const publicPrefix = "/sluice."

func newCall(d *Door, w http.ResponseWriter, r *http.Request) *call {
	c := &call{
		door:    d,
		open:    !strings.HasPrefix(r.URL.Path, publicPrefix),
		streams: d.streaming[r.URL.Path],
		headers: r.Header,
		request: d.requests.Hold(),
		answer:  d.answers.Hold(),
	}
	c.mu.users = 1
	c.mu.control = http.NewResponseController(w)
	return c
}

// admit finds out who calls and takes room for the stream. An error is the answer
// to the call.
func (c *call) admit() error {
	d := c.door
	if c.open {
		if !d.open.TryAcquire(arrival) {
			return errCallsBusy
		}
		return nil
	}
	secret, err := d.deps.Backend.Secret(c.headers.Values("Authorization"), c.headers.Values("X-Es-Key"))
	if err != nil {
		return errs.Mask(c.ctx, d.deps.Logger, err)
	}
	known := d.deps.Backend.Known(secret)
	if known && c.request.TryGrow(arrival) {
		return nil
	}
	if !d.lobby.TryAcquire(arrival) {
		return errCallsBusy
	}
	defer d.lobby.Release(arrival)
	if !known {
		if _, err := d.deps.Backend.Authenticate(c.ctx, secret); err != nil {
			return errs.Mask(c.ctx, d.deps.Logger, err)
		}
	}
	return c.request.Grow(c.ctx, arrival)
}

// depart gives back what admit took of the calls that everybody may make.
func (c *call) depart() {
	if c.open {
		c.door.open.Release(arrival)
	}
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
	last := c.mu.users == 0
	c.mu.Unlock()
	if last {
		c.request.Release()
		c.answer.Release()
		c.door.forget(c)
	}
}

// detach says that net/http's goroutine is done.
func (c *call) detach() {
	c.receiving.End()
	c.sending.End()
	c.message.End()
	c.mu.Lock()
	c.mu.control = nil
	c.mu.Unlock()
}

// cut ends the call for a reason, whatever it waits for.
func (c *call) cut(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.failure == nil {
		c.mu.failure = reason
	}
	c.cancel()
	if c.mu.control != nil && c.sending.Lasting() > 0 {
		// A time in the past takes effect at once.
		_ = c.mu.control.SetWriteDeadline(time.Unix(1, 0))
	}
}

// fail notes why the call cannot go on.
func (c *call) fail(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.failure == nil {
		c.mu.failure = reason
	}
}

// failed returns why the call could not go on, or nil.
func (c *call) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.failure
}

func (c *call) receivesSince() time.Duration { return c.receiving.Lasting() }
func (c *call) sendsSince() time.Duration    { return c.sending.Lasting() }

// settle has the answer hold so many bytes, or none when they are part of what each
// call takes. When they are more than it has it gives
// back all and takes them anew: if those who wait kept what they have, two could
// wait for each other.
func (c *call) settle(ctx context.Context, bytes int64) error {
	if bytes <= smallAnswer {
		bytes = 0
	}
	if bytes > c.answer.Taken() {
		c.answer.Release()
		return c.answer.Grow(ctx, bytes)
	}
	c.answer.Shrink(bytes)
	return nil
}
