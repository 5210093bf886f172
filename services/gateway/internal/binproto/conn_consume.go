package binproto

import (
	"context"
	"errors"
	"io"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
	"github.com/sluiceio/sluice/services/gateway/internal/budget"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/kit/confine"
)

// consume begins a request to read.
func (c *conn) consume(r ticket) error {
	topic, err := c.authorized(registryv1.Action_ACTION_READ)
	if err != nil {
		return err
	}
	if err = c.readFull(c.rest[:], "partition, offset, max_records and max_bytes"); err != nil {
		return err
	}
	if n, err := c.payload.Read(c.head[:1]); n > 0 || err == nil {
		return errMalformed.WithMessage("bytes follow max_bytes")
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	read := parseConsume(c.rest[:], string(topic))
	room := c.roomFor(read)
	if !c.unsent.enter(c.ctx, room) {
		return brokenError{c.ctx.Err()}
	}
	h := c.door.answers.Hold()
	if err := h.Grow(c.ctx, room); err != nil {
		c.unsent.leave(room)
		return err
	}
	caller, err := c.caller()
	if err != nil {
		c.unsent.leave(room)
		h.Release()
		return err
	}
	confine.Go(&c.requests, c.door.logger, c.lost, func() { c.read(r, caller, read, h) })
	return nil
}

// roomFor is what a read may take: what is read, and the frame that is made of it.
func (c *conn) roomFor(read backend.Read) int64 {
	bytes := min(read.MaxBytes, c.door.cfg.MaxFetchBytes)
	records := min(read.MaxRecords, c.door.cfg.MaxFetchRecords)
	return min(frameAndRead(bytes+fetchedHead+records*fetchedRecord), c.door.cfg.BudgetBytes)
}

// frameAndRead is what an answer with so many bytes of payload takes while it is
// made.
func frameAndRead(payload int) int64 {
	return int64(payload) + int64(bufferSize(frameHead+payload))
}

// read answers a request to read.
func (c *conn) read(r ticket, caller grants.Caller, read backend.Read, h budget.Hold) {
	ctx, span := c.door.trace(c.ctx, opConsume, read.Topic)
	frame, err := c.fetch(ctx, r.id, caller, read, &h)
	c.door.metrics.answered(r, err)
	if err != nil {
		frame = errorFrame(c.message(ctx, err), c.gzip, r.id)
	}
	span.end(err)
	taken := h.Taken()
	h.Shrink(int64(cap(frame)))
	c.unsent.leave(taken - h.Taken())
	c.answer(frame, h)
}

// fetch returns the answer to a read, for which there is room as far as max_bytes
// went.
func (c *conn) fetch(ctx context.Context, id uint32, caller grants.Caller, read backend.Read, h *budget.Hold) (frame []byte, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panicked(value)
		}
	}()
	fetched, err := c.door.backend.Consume(ctx, caller, read)
	if err != nil {
		return nil, err
	}
	size := fetchedSize(&fetched)
	// A first record comes whole however small max_bytes is, and who asks so may leave
	// it unread.
	before := h.Taken()
	if err := h.Grow(ctx, frameAndRead(size)); err != nil {
		return nil, err
	}
	c.unsent.add(h.Taken() - before)
	frame = appendFetched(newFrame(size), read.Partition, &fetched)
	return seal(frame, c.gzip, id, opConsume.response()), nil
}
