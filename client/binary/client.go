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
	// Ends with Close.
	ctx    context.Context
	cancel context.CancelFunc

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
	c := &Client{options: o, turn: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
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
	placed, err := decodePlaced(answer, len(p.Records))
	if err != nil {
		return nil, p.unknown(err)
	}
	return placed, nil
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

// Close closes the connection, and with it ends the request under way, which fails
// with ErrClosed, or with an *OutcomeUnknownError if that is what it is. Requests
// after it fail with ErrClosed.
func (c *Client) Close() error {
	c.cancel()
	<-c.turn
	c.drop()
	c.turn <- struct{}{}
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
		return p.unknown(u.cause)
	}
	if refused, ok := errors.AsType[*ServerError](err); ok && refused.ambiguous() {
		return p.unknown(err)
	}
	return err
}

// do sends a request and returns the payload of its answer. A request that was
// sent and not answered is sent again if it may be, else it is *unanswered.
func (c *Client) do(ctx context.Context, op opcode, payload []byte, repeatable bool) ([]byte, error) {
	select {
	case <-c.turn:
	case <-c.ctx.Done():
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { c.turn <- struct{}{} }()
	// Not begun for somebody who does not wait anymore, nor after Close.
	if err := c.over(ctx); err != nil {
		return nil, err
	}
	asked := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	wait := newBackoff()
	// Once it was sent, what follows does not tell what became of it.
	sent := false
	fail := func(err error) error {
		if sent {
			return &unanswered{err}
		}
		return err
	}
	for attempt := 1; ; attempt++ {
		last := attempt >= c.options.attempts
		err := c.ready(ctx)
		if err == nil {
			var answer []byte
			answer, err = c.exchange(ctx, op, payload)
			if err == nil {
				return answer, nil
			}
			if _, refused := errors.AsType[*ServerError](err); refused {
				return nil, fail(err)
			}
			sent = true
			c.drop()
			last = last || !repeatable || errors.Is(err, ErrMalformed)
		} else {
			last = last || permanent(err)
			err = connectError(c.options, err)
		}
		if over := c.over(asked); over != nil {
			return nil, fail(over)
		}
		if last {
			return nil, fail(err)
		}
		if wait.wait(ctx) != nil {
			return nil, fail(c.over(asked))
		}
	}
}

// over is why nobody waits anymore: the client was closed, or ctx ended. It is nil
// while somebody does.
func (c *Client) over(ctx context.Context) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return ctx.Err()
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

// pingAfter is how long a connection may have been idle and is still trusted: what is
// between client and server may have forgotten it without a word.
const pingAfter = 30 * time.Second

// ready sees to it that there is a connection.
func (c *Client) ready(ctx context.Context) error {
	if c.session != nil && !c.trusted(ctx) {
		c.drop()
	}
	if c.session != nil {
		return nil
	}
	var err error
	c.session, err = connect(ctx, c.options)
	c.lastUse = time.Now()
	return err
}

// trusted says whether the connection is as it was left: what is sent over one that
// the server has closed is lost, and then nobody knows that it is.
func (c *Client) trusted(ctx context.Context) bool {
	if !c.session.quiet() {
		return false
	}
	if time.Since(c.lastUse) <= pingAfter {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.connectTimeout)
	defer cancel()
	_, err := c.exchange(ctx, opPing, nil)
	return err == nil
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
		return nil, serverError(string(r.payload))
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
