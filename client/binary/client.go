package binary

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// Client sends one request at a time over one connection. It may be used by
// several goroutines, which then take turns. It runs no goroutine of its own.
type Client struct {
	options *options
	// Has a value while nobody has the connection.
	turn chan struct{}
	// Closed by Close.
	closed chan struct{}

	// Of whoever has the turn.
	session *session
	lastID  uint32
	// When the last answer came.
	lastUse time.Time
}

// New returns a client. It connects when it is first used.
func New(address string, opts ...Option) (*Client, error) {
	o, err := newOptions(address, opts)
	if err != nil {
		return nil, err
	}
	c := &Client{options: o, turn: make(chan struct{}, 1), closed: make(chan struct{})}
	c.turn <- struct{}{}
	return c, nil
}

// Produce writes records and returns where each stands once all are on disk.
func (c *Client) Produce(ctx context.Context, p Produce) ([]Placed, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	payload := appendProduce(make([]byte, 0, produceSize(&p)), &p)
	answer, err := c.do(ctx, opProduce, payload, p.repeatable())
	if err != nil {
		return nil, unknownProduce(&p, err)
	}
	return decodePlaced(answer, len(p.Records))
}

// Consume reads a partition.
func (c *Client) Consume(ctx context.Context, r Consume) (*Fetched, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	answer, err := c.do(ctx, opConsume, appendConsume(nil, &r), true)
	if err != nil {
		return nil, plain(err)
	}
	return decodeFetched(answer)
}

// Ping returns once the server has answered.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.do(ctx, opPing, nil, true)
	return plain(err)
}

// Close closes the connection once the request under way has ended. Requests
// after it fail with ErrClosed.
func (c *Client) Close() error {
	select {
	case <-c.closed:
		return nil
	case <-c.turn:
	}
	close(c.closed)
	c.drop()
	return nil
}

// unanswered is that a request was sent and no answer came.
type unanswered struct{ cause error }

func (e *unanswered) Error() string { return e.cause.Error() }
func (e *unanswered) Unwrap() error { return e.cause }

// plain takes off what only a produce needs to know.
func plain(err error) error {
	if u, ok := errors.AsType[*unanswered](err); ok {
		return u.cause
	}
	return err
}

func unknownProduce(p *Produce, err error) error {
	if u, ok := errors.AsType[*unanswered](err); ok {
		return &OutcomeUnknownError{Topic: p.Topic, Records: len(p.Records), Err: u.cause}
	}
	return err
}

// do sends a request and returns the payload of its answer. A request that was
// sent and not answered is sent again if it may be, else it is *unanswered.
func (c *Client) do(ctx context.Context, op opcode, payload []byte, repeatable bool) ([]byte, error) {
	select {
	case <-c.turn:
	case <-c.closed:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { c.turn <- struct{}{} }()
	wait := newBackoff()
	for attempt := 1; ; attempt++ {
		err := c.ready(ctx)
		if err != nil && (permanent(err) || attempt >= c.options.attempts || ctx.Err() != nil) {
			return nil, connectError(c.options, err)
		}
		if err == nil {
			answer, err := c.exchange(ctx, op, payload)
			if err == nil {
				return answer, nil
			}
			if _, refused := errors.AsType[*ServerError](err); refused {
				return nil, err
			}
			c.drop()
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			if !repeatable || errors.Is(err, ErrMalformed) || attempt >= c.options.attempts || ctx.Err() != nil {
				return nil, &unanswered{err}
			}
		}
		if wait.wait(ctx) != nil {
			return nil, ctx.Err()
		}
	}
}

func connectError(o *options, err error) error {
	if _, ok := errors.AsType[*HandshakeError](err); ok {
		return err
	}
	return &ConnectError{o.address, err}
}

// permanent says that connecting again would end the same way.
func permanent(err error) bool {
	_, refused := errors.AsType[*HandshakeError](err)
	_, distrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return refused || distrusted || errors.Is(err, ErrMalformed)
}

// pingAfter is how long a connection may have been idle and is still trusted: a
// server may have hung up meanwhile, and what is sent then is lost without a word.
const pingAfter = 30 * time.Second

// ready sees to it that there is a connection.
func (c *Client) ready(ctx context.Context) error {
	if c.session != nil && time.Since(c.lastUse) > pingAfter {
		if _, err := c.exchange(ctx, opPing, nil); err != nil {
			c.drop()
		}
	}
	if c.session != nil {
		return nil
	}
	var err error
	c.session, err = connect(ctx, c.options)
	c.lastUse = time.Now()
	return err
}

func (c *Client) exchange(ctx context.Context, op opcode, payload []byte) ([]byte, error) {
	s := c.session
	if err := s.conn.SetDeadline(time.Now().Add(c.options.requestTimeout)); err != nil {
		return nil, err
	}
	defer interrupt(ctx, s.conn)()
	c.lastID++
	if err := s.send(c.lastID, op, payload); err != nil {
		return nil, err
	}
	if err := s.out.Flush(); err != nil {
		return nil, err
	}
	r, err := s.receive()
	if err != nil {
		return nil, err
	}
	c.lastUse = time.Now()
	return r.answer(c.lastID, op)
}

// answer returns the payload of the answer to a request.
func (r *response) answer(id uint32, op opcode) ([]byte, error) {
	switch {
	case r.op == opError && (r.id == id || r.id == 0):
		return nil, &ServerError{string(r.payload)}
	case r.id != id:
		return nil, fmt.Errorf("%w: the answer to request %d, expected %d", ErrMalformed, r.id, id)
	case r.op != op.response():
		return nil, fmt.Errorf("%w: opcode 0x%02x, expected 0x%02x", ErrMalformed, uint8(r.op), uint8(op.response()))
	default:
		return r.payload, nil
	}
}

// drop gives the connection up.
func (c *Client) drop() {
	if c.session != nil {
		c.session.close()
		c.session = nil
	}
}
