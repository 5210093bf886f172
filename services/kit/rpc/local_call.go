package rpc

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// call is what unary calls and streams have in common: it is the context that
// the handler gets, and the header and trailer that it sends.
//
// As a context it has the deadline and the end of the caller's, but none of its
// values, and it ends when the handler has returned, as on the wire. Most
// handlers never wait, so the channel of Done is made when it is first asked
// for: a derived context for each call would cost as much as all the rest.
type call struct {
	local  *Local
	caller context.Context
	method string
	// metadata is what the handler may see beside the stream, which is the type
	// that the call is part of; set by open.
	metadata context.Context
	stream   grpc.ServerTransportStream
	// headerSent is closed when the header is complete; nil for unary calls,
	// where nobody waits for it.
	headerSent chan struct{}

	mu struct {
		sync.Mutex
		header, trailer metadata.MD
		// sent: the header is complete.
		sent bool
		// finished: the handler has returned.
		finished bool
		// ending ends with the caller's context, with a stop of the
		// connection, or with the handler; nil until someone asks.
		ending context.Context
		end    context.CancelFunc
		// values are metadata and stream as a context; nil until someone looks.
		values context.Context
	}
}

var (
	_ context.Context            = (*call)(nil)
	_ grpc.ServerTransportStream = (*call)(nil)
)

// open returns the handler's context. outer is the type that c is part of.
func (c *call) open(values context.Context, outer interface {
	context.Context
	grpc.ServerTransportStream
},
) context.Context {
	c.metadata, c.stream = values, outer
	return outer
}

// Deadline returns the caller's deadline.
func (c *call) Deadline() (time.Time, bool) { return c.caller.Deadline() }

// Done returns a channel that is closed when the call ends.
func (c *call) Done() <-chan struct{} { return c.wait().Done() }

// AfterFunc runs f when the call ends. Package context looks for this method
// and, finding it, needs no goroutine for a context derived from a call.
func (c *call) AfterFunc(f func()) func() bool { return context.AfterFunc(c.wait(), f) }

func (c *call) wait() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.ending == nil {
		ctx, cancel := context.WithCancel(c.caller)
		forget := context.AfterFunc(c.local.cut, cancel)
		c.mu.ending = ctx
		c.mu.end = func() { forget(); cancel() }
		if c.mu.finished {
			c.mu.end()
		}
	}
	return c.mu.ending
}

// Err says why the call ended, nil while it lasts.
func (c *call) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.mu.ending != nil:
		return c.mu.ending.Err()
	case c.mu.finished:
		return context.Canceled
	}
	if err := c.caller.Err(); err != nil {
		return err
	}
	return c.local.cut.Err()
}

// Value returns what came with the call, never a value of the caller's context.
func (c *call) Value(key any) any {
	c.mu.Lock()
	if c.mu.values == nil {
		c.mu.values = grpc.NewContextWithServerTransportStream(c.metadata, c.stream)
	}
	values := c.mu.values
	c.mu.Unlock()
	return values.Value(key)
}

// finish is called when the handler has returned.
func (c *call) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.finished = true
	c.sendHeaderLocked()
	if c.mu.end != nil {
		c.mu.end()
	}
}

// Method returns the full name of the method.
func (c *call) Method() string { return c.method }

// errHeaderSent is what a server over the wire says in the same place.
var errHeaderSent = status.Error(codes.Internal, "transport: SendHeader called multiple times")

// SetHeader adds to the header, as long as it has not been sent.
func (c *call) SetHeader(md metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.setHeaderLocked(md)
}

// SendHeader adds to the header and sends it.
func (c *call) SendHeader(md metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.setHeaderLocked(md); err != nil {
		return err
	}
	c.sendHeaderLocked()
	return nil
}

// SetTrailer adds to the trailer.
func (c *call) SetTrailer(md metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.trailer = metadata.Join(c.mu.trailer, md)
	return nil
}

func (c *call) setHeaderLocked(md metadata.MD) error {
	if c.mu.sent {
		return errHeaderSent
	}
	if len(md) > 0 {
		c.mu.header = metadata.Join(c.mu.header, md)
	}
	return nil
}

func (c *call) sendHeaderLocked() {
	if c.mu.sent {
		return
	}
	c.mu.sent = true
	if c.headerSent != nil {
		close(c.headerSent)
	}
}

func (c *call) header() metadata.MD {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.header
}

func (c *call) trailer() metadata.MD {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.trailer
}

// deliver fills what the caller asked for by call options.
func (c *call) deliver(opts []grpc.CallOption) {
	for _, opt := range opts {
		switch o := opt.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = c.header()
		case grpc.TrailerCallOption:
			*o.TrailerAddr = c.trailer()
		case grpc.PeerCallOption:
			*o.PeerAddr = *localPeer
		}
	}
}
