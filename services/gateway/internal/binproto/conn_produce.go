package binproto

import (
	"context"
	"errors"
	"io"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/kit/confine"
)

// produce puts a request to append into the line of its topic.
func (c *conn) produce(r ticket) error {
	topic, err := c.authorized(registryv1.Action_ACTION_WRITE)
	if err != nil {
		return err
	}
	if !c.unwritten.enter(c.ctx, 0) {
		return brokenError{c.ctx.Err()}
	}
	p := newProduce(r)
	p.hold = c.door.requests.Hold()
	err = c.readBody(p)
	if err == nil {
		err = p.parse(c.door.cfg.MaxRecords)
	}
	var caller grants.Caller
	if err == nil {
		caller, err = c.caller()
	}
	if err != nil {
		p.release()
		return err
	}
	c.unwritten.add(p.hold.Taken())
	line, first := c.lines.enter(topic, p)
	if first {
		confine.Go(&c.requests, c.door.logger, c.lost, func() { c.write(line, caller) })
	}
	return nil
}

// readBody reads the rest of the payload of a produce: as much memory as there
// are bytes, and never more than the limit.
func (c *conn) readBody(p *produce) error {
	defer c.receiving.End()
	// There was a wait for what came before to be written.
	if !c.hurry(c.payload.left) {
		return brokenError{context.Canceled}
	}
	// One more than there may be, so that the end is seen within the room.
	most := c.door.cfg.MaxPayloadBytes + 1
	expected := c.payload.left + 1
	if c.payload.compressed {
		expected *= 4
	}
	for room := min(expected, firstRoom, most); ; room = min(max(2*room, secondRoom), most) {
		c.receiving.End()
		if err := p.hold.Grow(c.ctx, int64(room)); err != nil {
			return err
		}
		if cap(p.body) < room {
			grown := append(getBuffer(room), p.body...)
			putBuffer(p.body)
			p.body = grown
		}
		for len(p.body) < room {
			if len(c.in.unread) == 0 {
				c.receiving.Begin()
			}
			n, err := c.payload.Read(p.body[len(p.body):room])
			p.body = p.body[:len(p.body)+n]
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
		}
		if room == most {
			return errTooLarge.WithMessage("the payload inflates to more than the limit of %d bytes", c.door.cfg.MaxPayloadBytes)
		}
	}
}

// write writes the produces of a line, those together that waited together,
// until the line is empty.
func (c *conn) write(l *line, caller grants.Caller) {
	for first := true; ; first = false {
		group := c.lines.next(l, c.door.cfg.MaxPayloadBytes)
		if len(group) == 0 {
			return
		}
		var err error
		if !first {
			// Keys may have been revoked since their frames began.
			caller, err = c.caller()
		}
		answers := make([]answer, len(group))
		if err == nil {
			err = c.writeGroup(l.topic, caller, group, answers)
		}
		if err != nil {
			message := c.message(c.ctx, err)
			for i, p := range group {
				c.door.metrics.answered(p.ticket, err)
				answers[i].frame = errorFrame(message, c.gzip, p.id)
			}
		}
		for _, p := range group {
			c.unwritten.leave(p.hold.Taken())
			p.release()
		}
		c.out.send(answers...)
	}
}

// writeGroup fills in an answer for each request; an error is the answer to all.
func (c *conn) writeGroup(topic string, caller grants.Caller, group []*produce, answers []answer) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panicked(value)
		}
	}()
	ctx, span := c.door.trace(c.base, opProduce, topic)
	defer func() { span.end(err) }()
	requests := make([]backend.WriteRequest, len(group))
	for i, p := range group {
		requests[i] = backend.WriteRequest{Records: p.records, Producer: p.producer}
	}
	span.produces(group)
	c.door.metrics.together.Observe(float64(len(group)))
	results := c.door.backend.ProduceAll(ctx, caller, topic, requests)
	for i, p := range group {
		c.door.metrics.answered(p.ticket, results[i].Err)
		if err := results[i].Err; err != nil {
			span.failed(err)
			answers[i].frame = errorFrame(c.message(ctx, err), c.gzip, p.id)
			continue
		}
		placed := results[i].Placed
		frame := appendPlaced(newFrame(4+len(placed)*placedSize), placed)
		answers[i].frame = seal(frame, c.gzip, p.id, opProduce.response())
	}
	return nil
}
