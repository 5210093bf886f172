package grpcdoor

import (
	"context"
	"strings"

	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// publicPrefix begins the methods that need a key.
const publicPrefix = "/sluice."

// tap sees the headers of a call before anything else does, on the goroutine that
// reads its connection. It may not wait. It takes the call's arrival: of the requests,
// or, where that has to be waited for or its caller found out, of the lobby.
func (d *Door) tap(ctx context.Context, info *tap.Info) (_ context.Context, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = errs.Mask(ctx, d.deps.Logger, confine.Recovered(value))
		}
		if err != nil {
			d.metrics.refuse(err)
		}
	}()
	p, _ := peer.FromContext(ctx)
	via, ok := p.AuthInfo.(connInfo)
	if !ok {
		return ctx, nil
	}
	c := newCall(ctx, via.conn, info.FullMethodName)
	if err := c.arrive(info); err != nil {
		c.end()
		return nil, err
	}
	return c.ctx, nil
}

// newCall returns a call that holds nothing.
func newCall(ctx context.Context, via *conn, method string) *call {
	d := via.door
	c := &call{
		door:     d,
		conn:     via,
		open:     !strings.HasPrefix(method, publicPrefix),
		streams:  d.streaming[method],
		request:  d.requests.Hold(),
		answer:   d.answers.Hold(),
		admitted: make(chan struct{}),
		ready:    make(chan struct{}),
	}
	c.life, c.end = context.WithCancel(ctx)
	if c.open {
		ctx = c.life
	}
	c.ctx = context.WithValue(ctx, callKey{}, c)
	return c
}

// arrive takes the arrival, and enters the call in the books.
func (c *call) arrive(info *tap.Info) error {
	d := c.door
	c.headers = headerBytes(info.Header)
	known := false
	if !c.open {
		secret, err := d.deps.Backend.Secret(info.Header.Get("authorization"), info.Header.Get("x-es-key"))
		if err != nil {
			return errs.Mask(c.ctx, d.deps.Logger, err)
		}
		c.secret, known = secret, d.deps.Backend.Known(secret)
	}
	if !d.calls.TryAcquire(1) {
		return errCallsBusy
	}
	switch {
	case c.open:
		room := d.open
		if c.streams {
			room = d.watches
		}
		if !room.TryAcquire(arrival) {
			d.calls.Release(1)
			return errCallsBusy
		}
		c.mu.depart = func() { room.Release(arrival) }
	case known && c.request.TryGrow(arrival):
		close(c.admitted)
	default:
		if !d.lobby.TryAcquire(arrival) {
			d.calls.Release(1)
			return errCallsBusy
		}
		c.mu.depart = func() { d.lobby.Release(arrival) }
	}
	c.mu.users = 1
	d.under.Add(1)
	if !c.streams {
		c.begin()
	}
	if !c.conn.enter(c) {
		c.leave()
		return errStopping
	}
	return nil
}

// admit finds out who makes a call that waits in the lobby, and has it hold its own
// arrival. An error is the answer to the call.
func (c *call) admit() error {
	select {
	case <-c.admitted:
		return nil
	default:
	}
	if !c.door.deps.Backend.Known(c.secret) {
		if _, err := c.door.deps.Backend.Authenticate(c.ctx, c.secret); err != nil {
			return errs.Mask(c.ctx, c.door.deps.Logger, err)
		}
	}
	if err := c.request.Grow(c.life, arrival); err != nil {
		return err
	}
	c.mu.Lock()
	depart := c.mu.depart
	c.mu.depart = nil
	c.mu.Unlock()
	depart()
	close(c.admitted)
	c.begin()
	return nil
}
