package binary

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Pipelined sends requests over one connection without waiting for the answers to
// those before. Produces to one topic are written in the order in which Send was
// called; other requests may overtake them. It may be used by several goroutines.
//
// A produce that the server refuses does not hold up those behind it.
type Pipelined struct {
	options *options
	// One for each request that was taken and not answered.
	slots chan struct{}
	// Gets a value when there is something to send. Capacity 1.
	wake   chan struct{}
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}

	mu struct {
		sync.Mutex
		closed bool
		last   uint32
		// Not sent, in order.
		queue []*call
		// Sent and not answered.
		flying map[uint32]*call
	}
}

// NewPipelined returns a client that is to be closed. It connects when it is
// first used.
func NewPipelined(address string, opts ...Option) (*Pipelined, error) {
	o, err := newOptions(address, opts)
	if err != nil {
		return nil, err
	}
	p := &Pipelined{
		options: o,
		slots:   make(chan struct{}, o.inFlight),
		wake:    make(chan struct{}, 1),
		ended:   make(chan struct{}),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.mu.flying = make(map[uint32]*call)
	go p.run()
	return p, nil
}

// Send sends a produce. It waits while as many requests are unanswered as may be;
// the end of ctx ends that, and nothing else. An error is that nothing was sent.
func (p *Pipelined) Send(ctx context.Context, r Produce) (*Future[[]Placed], error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	// The records are the caller's again.
	topic, records := r.Topic, len(r.Records)
	unknown := func(cause error) error {
		return &OutcomeUnknownError{Topic: topic, Records: records, Err: cause}
	}
	c, err := p.take(ctx, &call{
		op:         opProduce,
		payload:    appendProduce(make([]byte, 0, produceSize(&r)), &r),
		repeatable: r.repeatable(),
		unknown:    unknown,
	})
	if err != nil {
		return nil, err
	}
	return &Future[[]Placed]{c, func(payload []byte) ([]Placed, error) {
		placed, err := decodePlaced(payload, records)
		if err != nil {
			return nil, unknown(err)
		}
		return placed, nil
	}}, nil
}

// Fetch sends a consume, as Send sends a produce.
func (p *Pipelined) Fetch(ctx context.Context, r Consume) (*Future[*Fetched], error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	c, err := p.take(ctx, &call{op: opConsume, payload: appendConsume(nil, &r), repeatable: true})
	if err != nil {
		return nil, err
	}
	return &Future[*Fetched]{c, decodeFetched}, nil
}

// Produce sends records and waits. When ctx ends before they were sent they are not
// sent anymore; when it ends before the answer comes, the outcome is unknown.
func (p *Pipelined) Produce(ctx context.Context, r Produce) ([]Placed, error) {
	f, err := p.Send(ctx, r)
	if err != nil {
		return nil, err
	}
	return await(ctx, p, f)
}

// Consume reads a partition.
func (p *Pipelined) Consume(ctx context.Context, r Consume) (*Fetched, error) {
	f, err := p.Fetch(ctx, r)
	if err != nil {
		return nil, err
	}
	return await(ctx, p, f)
}

// Ping returns once the server has answered.
func (p *Pipelined) Ping(ctx context.Context) error {
	c, err := p.take(ctx, &call{op: opPing, repeatable: true})
	if err != nil {
		return err
	}
	_, err = await(ctx, p, &Future[struct{}]{c, func([]byte) (struct{}, error) { return struct{}{}, nil }})
	return err
}

// await waits for an answer. When ctx ends first, what was not sent is taken back.
func await[T any](ctx context.Context, p *Pipelined, f *Future[T]) (T, error) {
	select {
	case <-f.call.done:
	case <-ctx.Done():
		var none T
		switch p.takeBack(f.call, ctx.Err()) {
		case takenBack:
			return none, ctx.Err()
		case underWay:
			return none, f.call.ambiguous(ctx.Err())
		}
	}
	return f.Wait(ctx)
}

// A recall is what comes of taking a call back.
type recall int

const (
	takenBack recall = iota
	underWay
	answered
)

// takeBack ends a call that was not sent.
func (p *Pipelined) takeBack(c *call, cause error) recall {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-c.done:
		return answered
	default:
	}
	at := slices.Index(p.mu.queue, c)
	if at < 0 || c.sent > 0 {
		return underWay
	}
	p.mu.queue = slices.Delete(p.mu.queue, at, at+1)
	<-p.slots
	c.end(nil, cause)
	return takenBack
}

// Close closes the connection. Requests that are unanswered fail with ErrClosed,
// or with an *OutcomeUnknownError if that is what they are; wait for them before
// it is called.
func (p *Pipelined) Close() error {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.cancel()
	<-p.ended
	return nil
}

// take queues a call once there is room for it.
func (p *Pipelined) take(ctx context.Context, c *call) (*call, error) {
	select {
	case p.slots <- struct{}{}:
	default:
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.ctx.Done():
			return nil, ErrClosed
		}
	}
	c.done = make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		<-p.slots
		return nil, ErrClosed
	}
	p.mu.last++
	if p.mu.last == 0 {
		// What a server that trusts a frame no more answers to.
		p.mu.last = 1
	}
	c.number = p.mu.last
	p.mu.queue = append(p.mu.queue, c)
	p.wakeUp()
	return c, nil
}

func (p *Pipelined) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run connects while there is something to send, until the client is closed.
func (p *Pipelined) run() {
	defer close(p.ended)
	defer func() { p.failAll(ErrClosed) }()
	wait := newBackoff()
	for attempt := 1; ; {
		if !p.awaitWork() {
			return
		}
		s, err := connect(p.ctx, p.options)
		if err == nil {
			var answered bool
			answered, err = p.serve(s)
			p.requeue(err)
			if answered {
				attempt, wait = 1, newBackoff()
			}
		} else if permanent(err) || attempt >= p.options.attempts {
			p.failAll(connectError(p.options, err))
			attempt, wait = 0, newBackoff()
		}
		attempt++
		if wait.wait(p.ctx) != nil {
			return
		}
	}
}

// awaitWork waits until a call is queued; it is false once the client is closed.
func (p *Pipelined) awaitWork() bool {
	for {
		p.mu.Lock()
		work := len(p.mu.queue) > 0
		p.mu.Unlock()
		if work {
			return true
		}
		select {
		case <-p.wake:
		case <-p.ctx.Done():
			return false
		}
	}
}

// serve sends what is queued until the connection breaks. It says whether
// anything was answered.
func (p *Pipelined) serve(s *session) (answered bool, err error) {
	// Closing the client ends reads and writes, whatever they wait for.
	defer context.AfterFunc(p.ctx, s.close)()
	broken := make(chan error, 1)
	go func() {
		var err error
		answered, err = p.receive(s)
		broken <- err
	}()
	for err == nil {
		if err = p.flush(s); err != nil {
			break
		}
		select {
		case <-p.wake:
			continue
		case err = <-broken:
			s.close()
			return answered, p.cause(err)
		case <-p.ctx.Done():
			err = ErrClosed
		}
	}
	s.close()
	if received := <-broken; !errors.Is(received, net.ErrClosed) {
		// What the server said last tells more than that it was not listening.
		err = received
	}
	return answered, p.cause(err)
}

// cause is why a connection ended.
func (p *Pipelined) cause(err error) error {
	if p.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}

// flush sends all that is queued.
func (p *Pipelined) flush(s *session) error {
	for {
		frames, err := p.board(s)
		if err != nil {
			return err
		}
		if len(frames) == 0 {
			return s.out.Flush()
		}
		if err := s.conn.SetWriteDeadline(time.Now().Add(p.options.requestTimeout)); err != nil {
			return err
		}
		for _, f := range frames {
			if err := s.send(f.number, f.op, f.payload); err != nil {
				return err
			}
		}
	}
}

// An outgoing is what is sent of a call. The call itself may end at any time.
type outgoing struct {
	number  uint32
	op      opcode
	payload []byte
}

// board moves all that is queued to what waits for an answer: before it is sent,
// or the answer would be there first.
func (p *Pipelined) board(s *session) ([]outgoing, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.queue) == 0 {
		return nil, nil
	}
	if len(p.mu.flying) == 0 {
		// From now on there is something to wait for.
		if err := s.conn.SetReadDeadline(time.Now().Add(p.options.requestTimeout)); err != nil {
			return nil, err
		}
	}
	frames := make([]outgoing, len(p.mu.queue))
	for i, c := range p.mu.queue {
		frames[i] = outgoing{c.number, c.op, c.payload}
		p.mu.flying[c.number] = c
		c.sent++
	}
	clear(p.mu.queue)
	p.mu.queue = p.mu.queue[:0]
	return frames, nil
}

// receive takes answers until the connection breaks.
func (p *Pipelined) receive(s *session) (answered bool, err error) {
	for {
		r, err := s.receive()
		if err != nil {
			return answered, err
		}
		c := p.landed(s, r.id)
		if c == nil {
			if r.op == opError && r.id == 0 {
				return answered, serverError(string(r.payload))
			}
			return answered, fmt.Errorf("%w: an answer to request %d, which nobody made", ErrMalformed, r.id)
		}
		answered = true
		payload, err := r.answer(c.number, c.op)
		<-p.slots
		c.answered(payload, err)
		if errors.Is(err, ErrMalformed) {
			return answered, err
		}
	}
}

// landed takes a call out of those that wait, nil when there is none of the id.
func (p *Pipelined) landed(s *session, id uint32) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.mu.flying[id]
	delete(p.mu.flying, id)
	deadline := time.Time{}
	if len(p.mu.flying) > 0 {
		deadline = time.Now().Add(p.options.requestTimeout)
	}
	// On a connection that was closed meanwhile it fails, and the next read will: this
	// answer is there.
	_ = s.conn.SetReadDeadline(deadline)
	return c
}

// requeue puts what was sent and not answered back before what was not sent, and
// ends what must not be sent again.
func (p *Pipelined) requeue(cause error) {
	var lost []*call
	p.mu.Lock()
	again := make([]*call, 0, len(p.mu.flying)+len(p.mu.queue))
	for _, c := range p.mu.flying {
		if c.repeatable && c.sent < p.options.attempts && !errors.Is(cause, ErrMalformed) {
			again = append(again, c)
		} else {
			lost = append(lost, c)
		}
	}
	clear(p.mu.flying)
	slices.SortFunc(again, inOrder)
	p.mu.queue = append(again, p.mu.queue...)
	p.mu.Unlock()
	p.endAll(lost, cause)
}

// inOrder compares the numbers of calls, which may have begun anew.
func inOrder(a, b *call) int { return int(int32(a.number - b.number)) }

// failAll ends all calls.
func (p *Pipelined) failAll(cause error) {
	p.mu.Lock()
	calls := p.mu.queue
	p.mu.queue = nil
	for _, c := range p.mu.flying {
		calls = append(calls, c)
	}
	clear(p.mu.flying)
	p.mu.Unlock()
	p.endAll(calls, cause)
}

func (p *Pipelined) endAll(calls []*call, cause error) {
	slices.SortFunc(calls, inOrder)
	for _, c := range calls {
		<-p.slots
		if c.sent > 0 {
			c.end(nil, c.ambiguous(cause))
		} else {
			c.end(nil, cause)
		}
	}
}
