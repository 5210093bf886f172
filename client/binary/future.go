package binary

import (
	"context"
	"errors"
)

// A Future is the answer to a request that was sent.
type Future[T any] struct {
	call   *call
	decode func(payload []byte) (T, error)
}

// Done is closed once the answer is there.
func (f *Future[T]) Done() <-chan struct{} { return f.call.done }

// Wait waits for the answer. It may be called again, also after ctx ended, which
// leaves the request as it is.
func (f *Future[T]) Wait(ctx context.Context) (T, error) {
	var none T
	select {
	case <-f.call.done:
	default:
		select {
		case <-f.call.done:
		case <-ctx.Done():
			return none, ctx.Err()
		}
	}
	if f.call.err != nil {
		return none, f.call.err
	}
	return f.decode(f.call.answer)
}

// A call is a request on its way.
//
// Who holds it: the queue of its Pipelined until it is sent, then the calls that
// wait for an answer, and nobody once done is closed.
type call struct {
	// The order in which calls were made; their ids on the wire, too.
	number uint32
	op     opcode
	// Not compressed; nil once it is not needed anymore.
	payload []byte
	// It may be sent twice.
	repeatable bool
	// How often it was sent.
	sent int
	// What it fails with when it was sent and not answered.
	unknown func(cause error) error

	done chan struct{}
	// Valid once done is closed.
	answer []byte
	err    error
}

func (c *call) end(answer []byte, err error) {
	c.answer, c.err, c.payload = answer, err, nil
	close(c.done)
}

// answered ends a call with what the server said to it.
func (c *call) answered(payload []byte, err error) {
	refused, ok := errors.AsType[*ServerError](err)
	if err != nil && (!ok || refused.ambiguous() || c.sent > 1) {
		// Of what was sent twice, the first may have been written, whatever is said
		// of the second.
		err = c.ambiguous(err)
	}
	c.end(payload, err)
}

// ambiguous is the error of a call that was sent, when nobody can tell what became
// of it.
func (c *call) ambiguous(cause error) error {
	if c.unknown == nil {
		return cause
	}
	return c.unknown(cause)
}
