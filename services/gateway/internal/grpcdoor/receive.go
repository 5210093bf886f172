package grpcdoor

import (
	"context"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/services/kit/confine"
)

// expect makes room for a frame of the call's data, and waits for that. It is false
// when the frame is not to come to grpc-go.
func (c *call) expect(length int) bool {
	if c.whole || !c.enter() {
		return false
	}
	defer c.leave()
	c.cost += frameCost(length)
	if c.streams {
		c.settleStream(length)
	}
	c.makeRoom(int64(length))
	if c.failed() != nil {
		return false
	}
	if !c.streams || c.messages.within() {
		c.begin()
	}
	return true
}

// settleStream has the cost begin anew when all messages of a stream have been taken.
func (c *call) settleStream(length int) {
	c.mu.Lock()
	taken := c.mu.taken
	c.mu.Unlock()
	if taken == c.messages.begun && !c.messages.within() {
		c.cost = frameCost(length)
	}
}

// begin says that the client owes bytes, unless all have come.
func (c *call) begin() {
	if !c.isAdmitted() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.received {
		return
	}
	c.receiving.Begin()
	if c.message.Lasting() == 0 {
		c.message.Begin()
	}
}

// paid says that the client owes none, for good when nothing follows.
func (c *call) paid(last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.received = c.mu.received || last
	c.receiving.End()
	c.message.End()
}

func (c *call) isAdmitted() bool {
	select {
	case <-c.admitted:
		return true
	default:
		return c.open
	}
}

// makeRoom takes room for what grpc-go keeps, with so many bytes to come, and for the
// message that is made of it: as many again, as far as there are more to come; all
// that it may inflate to. What the stream took when it began counts.
func (c *call) makeRoom(coming int64) {
	room := max(c.cost, min(2*(c.messages.arrived+coming), c.messages.length()))
	if c.messages.compressed {
		room = c.cost + int64(c.door.cfg.MaxMessageBytes)
	}
	if room <= streamWindow {
		return
	}
	if c.open {
		c.fail(errTooLarge)
		return
	}
	select {
	case <-c.admitted:
	case <-c.life.Done():
		return
	case <-c.conn.closed:
		return
	}
	if room+maxHeaderBytes <= c.request.Taken() {
		return
	}
	if err := c.grow(room + maxHeaderBytes); err != nil {
		c.fail(err)
		return
	}
	c.receiving.Begin()
}

// grow has the call hold so much. Who waits for it holds what others may wait for, so
// he is in the way as one who has stopped: if all waited for each other, nobody got
// through.
func (c *call) grow(to int64) error {
	c.receiving.Begin()
	return c.request.Grow(c.life, to)
}

// observe follows data that grpc-go is about to get.
func (c *call) observe(b []byte) {
	if !c.enter() {
		return
	}
	defer c.leave()
	// grpc-go's reader recovers nothing.
	if err := confine.Attempt(c.ctx, c.door.deps.Logger, func() error {
		whole := c.messages.begun > 0 && !c.messages.within()
		c.messages.take(b)
		if !c.streams && (c.messages.begun > 1 || whole && len(b) > 0) {
			c.fail(errTwoMessages)
			return nil
		}
		if c.messages.compressed {
			c.makeRoom(0)
		}
		return nil
	}); err != nil {
		c.fail(err)
	}
}

// endFrame is for a frame that grpc-go has now; last says that nothing follows.
func (c *call) endFrame(last bool) {
	switch {
	case last:
		c.whole = true
		c.paid(true)
		c.readiness.Do(func() { close(c.ready) })
	case c.streams && !c.messages.within():
		c.paid(false)
	case headSize+c.messages.length() > streamWindow && !c.streams:
		c.readiness.Do(func() { c.large = true; close(c.ready) })
	}
}

// receive stands around what reads the message of a unary call. What the door has to
// say of the call is told in the place of what grpc-go makes of a message that does
// not come.
func (c *call) receive(decode func(any) error) func(any) error {
	return func(m any) error {
		select {
		case <-c.ready:
		case <-c.life.Done():
			return c.ended()
		}
		if err := c.failed(); err != nil {
			return err
		}
		r := new(request)
		read := decode
		if c.large {
			read = c.readLarge(decode)
		}
		if err := read(r); err != nil {
			return err
		}
		return c.decode(r, m.(proto.Message))
	}
}

// readLarge has a message read as it comes.
func (c *call) readLarge(read func(any) error) func(any) error {
	return func(r any) error {
		if !c.enter() {
			return status.FromContextError(context.Canceled).Err()
		}
		done := make(chan error, 1)
		lost := func(err error) { done <- err }
		confine.Go(&c.door.reading, c.door.deps.Logger, lost, func() {
			defer c.leave()
			done <- read(r)
		})
		select {
		case err := <-done:
			return err
		case <-c.life.Done():
			return c.ended()
		}
	}
}

// ended returns why the call's life has ended.
func (c *call) ended() error {
	if err := c.failed(); err != nil {
		return err
	}
	return status.FromContextError(c.ctx.Err()).Err()
}
