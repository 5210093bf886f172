package binproto

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/budget"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// A conn is one connection. One goroutine reads it; requests run on others.
type conn struct {
	door *Door
	net  net.Conn
	// What is below TLS; net itself without.
	socket  net.Conn
	address netip.Addr
	// Ends when nobody can get an answer anymore.
	ctx    context.Context
	cancel context.CancelFunc
	// Ends when requests are cut off. What is being written is not given up
	// because its client has gone.
	base context.Context

	// Of the goroutine that reads.
	in      input
	payload payload
	head    [frameHead]byte
	topic   [maxTopic]byte
	rest    [consumeSize]byte
	// When the frame that is being read must be there.
	frameEnd time.Time

	// Set by the handshake and not changed after it.
	secret string
	gzip   bool

	// No more requests are to be taken.
	stopping atomic.Bool
	// Why the connection ends, as soon as that is known; the first reason counts.
	why atomic.Pointer[ending]

	out outbox
	// One for each request that was taken and whose answer was not sent.
	slots chan struct{}
	// Requests that run.
	requests sync.WaitGroup
	lines    lines
	// Bytes of produces that were read and not written, and of answers to reads
	// that were not sent.
	unwritten, unsent backlog
	// The client has bytes of the door's budgets wait: for more of a request, for
	// an answer to be taken.
	receiving, sending budget.Stall
}

func newConn(ctx context.Context, d *Door, accepted net.Conn, address netip.Addr) *conn {
	c := &conn{
		door:    d,
		net:     accepted,
		socket:  accepted,
		address: address,
		base:    ctx,
		slots:   make(chan struct{}, maxInFlight),
	}
	if d.tls != nil {
		c.net = tls.Server(accepted, d.tls)
	}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.in.conn, c.in.received = c.net, d.metrics.received
	c.out.conn = c.net
	c.out.timeout, c.out.bytes = d.cfg.WriteTimeout, d.metrics.sent
	c.out.stall = &c.sending
	c.out.sent = c.sent
	c.out.broken = c.broken
	for _, b := range []*backlog{&c.unwritten, &c.unsent} {
		b.most, b.room = d.cfg.ConnectionBytes, make(chan struct{}, 1)
	}
	return c
}

// begin shakes hands, and leaves the connection to serve: on a goroutine whose
// stack has not grown by what a handshake takes.
func (c *conn) begin() {
	if err := c.handshake(); err != nil {
		c.door.logger.DebugContext(c.ctx, "handshake failed", "address", c.address, "error", err)
		if _, told := errors.AsType[*refusal](err); !told {
			c.refused(err)
		}
		c.end()
		return
	}
	c.door.metrics.accepted.Inc()
	confine.Go(&c.door.running, c.door.logger, c.lost, c.serve)
}

func (c *conn) handshake() (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panicked(value)
			_ = errs.Mask(c.ctx, c.door.logger, err)
		}
	}()
	if err := c.net.SetDeadline(time.Now().Add(c.door.cfg.HandshakeTimeout)); err != nil {
		return err
	}
	if c.stopping.Load() {
		return context.Canceled
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.door.cfg.HandshakeTimeout)
	defer cancel()
	greeting, err := readGreeting(c.in.direct())
	if err == nil {
		err = c.admit(ctx, greeting.token)
	}
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		c.refused(refused)
		if c.reply(refused.status, 0, refused.message) == nil {
			c.linger()
		}
		return refused
	case err != nil:
		return err
	}
	features := greeting.features & featureGzip
	if err := c.reply(statusOK, features, ""); err != nil {
		return err
	}
	c.secret, c.gzip = greeting.token, features&featureGzip != 0
	return nil
}

// refused counts a handshake that failed.
func (c *conn) refused(err error) {
	c.door.metrics.refused.WithLabelValues(string(refusalReason(err))).Inc()
}

// reply ends the handshake.
func (c *conn) reply(s status, features uint32, message string) error {
	n, err := c.net.Write(appendReply(nil, s, features, message))
	c.door.metrics.sent.Add(float64(n))
	return err
}

// serve takes requests until the connection is to end, and waits for those that
// run.
func (c *conn) serve() {
	defer c.end()
	for c.takeSlot() && c.await() && c.frame() {
	}
	// What was taken is answered, whoever else waits for room.
	c.requests.Wait()
	c.endsFor(endedByClient)
	c.door.metrics.closed.WithLabelValues(string(*c.why.Load())).Inc()
	if !c.stopping.Load() {
		return
	}
	c.linger()
}

// endsFor notes why the connection ends, unless that was known before.
func (c *conn) endsFor(why ending) { c.why.CompareAndSwap(nil, &why) }

// endsWith notes that it ends because its client was waited for in vain, if that is
// what the error says.
func (c *conn) endsWith(err error, inVain ending) {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() && !c.stopping.Load() {
		c.endsFor(inVain)
	}
}

// end closes the connection.
func (c *conn) end() {
	c.cancel()
	c.in.release()
	c.net.Close()
	c.door.forget(c)
}

// takeSlot waits until fewer than 32 requests are under way.
func (c *conn) takeSlot() bool {
	select {
	case c.slots <- struct{}{}:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// await waits for a frame, and says whether there is one.
func (c *conn) await() bool {
	for {
		if len(c.in.unread) == 0 {
			if c.net.SetReadDeadline(time.Now().Add(c.door.cfg.IdleTimeout)) != nil {
				return false
			}
		}
		// After the deadline was set, or it would be set over that of a stop.
		if c.stopping.Load() {
			return false
		}
		err := c.in.await()
		if err == nil {
			return true
		}
		// One slot is that of the frame that did not come.
		busy := len(c.slots) > 1
		if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() || !busy || c.stopping.Load() {
			c.endsWith(err, endedIdle)
			return false
		}
	}
}

// frame reads one frame and sees to it that it is answered. It says whether
// there can be another.
func (c *conn) frame() bool {
	if !c.hurry(frameHead) {
		return false
	}
	if _, err := io.ReadFull(&c.in, c.head[:lengthSize]); err != nil {
		return c.broke(err)
	}
	length := binary.BigEndian.Uint32(c.head[:])
	if length < headSize {
		return c.hangUp(ticket{began: time.Now()}, errMalformed.WithMessage("a frame has at least %d bytes after its length, got %d", headSize, length))
	}
	if _, err := io.ReadFull(&c.in, c.head[lengthSize:]); err != nil {
		return c.broke(err)
	}
	r := ticket{binary.BigEndian.Uint32(c.head[lengthSize:]), opcode(c.head[lengthSize+4]), time.Now()}
	if int64(length)-headSize > int64(c.door.cfg.MaxPayloadBytes) {
		return c.hangUp(r, errTooLarge.WithMessage("the payload is larger than the limit of %d bytes", c.door.cfg.MaxPayloadBytes))
	}
	c.payload = payload{in: &c.in, left: int(length - headSize), compressed: c.gzip, pacer: c}
	if !c.hurry(c.payload.left) {
		return false
	}
	err := c.request(r)
	c.payload.release()
	switch _, broken := errors.AsType[brokenError](err); {
	case broken:
		return c.broke(err)
	case errs.KindOf(err) == errs.Unauthenticated:
		return c.hangUp(r, err)
	case err != nil:
		c.fail(r, err)
	}
	if err := c.payload.discard(); err != nil {
		return c.broke(err)
	}
	return true
}

// broke ends a connection that broke within a frame.
func (c *conn) broke(err error) bool {
	c.endsWith(err, endedSlowSender)
	return false
}

// hurry gives the client a time to send what is missing of the next n bytes: to
// begin with, and for all of it.
func (c *conn) hurry(n int) bool {
	if len(c.in.unread) >= n {
		return true
	}
	c.frameEnd = time.Now().Add(c.door.cfg.FrameTimeout)
	return c.pace() == nil
}

// pace gives the client a time to send what comes next of a frame: one that
// stops in the middle holds memory for nothing.
func (c *conn) pace() error {
	deadline := time.Now().Add(c.door.cfg.StallTimeout)
	if deadline.After(c.frameEnd) {
		deadline = c.frameEnd
	}
	if err := c.net.SetReadDeadline(deadline); err != nil {
		return err
	}
	// After the deadline was set, or it would be set over that of a stop.
	if c.stopping.Load() {
		return context.Canceled
	}
	return nil
}

// errTooLarge is that a payload is over the limit.
var errTooLarge = errs.New(errs.InvalidArgument, "FRAME_TOO_LARGE", "the frame is too large")

// request begins one request. An error is its answer; without one it will be
// answered.
func (c *conn) request(r ticket) error {
	switch r.op {
	case opPing:
		// First, so that the answer is not ahead of a frame that breaks off.
		if err := c.payload.discard(); err != nil {
			return err
		}
		c.door.metrics.answered(r, nil)
		c.answer(seal(newFrame(0), c.gzip, r.id, opPing.response()), budget.Hold{})
		return nil
	case opProduce:
		return c.produce(r)
	case opConsume:
		return c.consume(r)
	default:
		return errMalformed.WithMessage("unknown opcode 0x%02x, expected 0x01 (produce), 0x02 (consume) or 0x03 (ping)", uint8(r.op))
	}
}

// authorized reads the topic at the start of a payload, and asks whether the key
// that the connection came with may still do an action on it.
func (c *conn) authorized(action registryv1.Action) ([]byte, error) {
	topic, err := c.readTopic()
	if err != nil {
		return nil, err
	}
	caller, err := c.caller()
	if err != nil {
		return nil, err
	}
	return topic, caller.Check(action, string(topic))
}

// caller asks for the key again. It is called once more when a request begins:
// the rest of its frame may have taken a minute, in which the key was revoked.
// What the key may do is then asked by the backend.
func (c *conn) caller() (grants.Caller, error) {
	return c.door.backend.Authenticate(c.ctx, c.secret)
}

// readTopic reads topic_len and topic. The result is valid until the next frame.
func (c *conn) readTopic() ([]byte, error) {
	const field = 2
	if err := c.readFull(c.topic[:field], "topic_len"); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(c.topic[:]))
	if n > maxTopic {
		return nil, errMalformed.WithMessage("a topic has at most %d bytes, got %d", maxTopic, n)
	}
	topic := c.topic[:n]
	return topic, c.readFull(topic, "topic")
}

// readFull reads a part of the payload of known size.
func (c *conn) readFull(b []byte, field string) error {
	_, err := io.ReadFull(&c.payload, b)
	if _, broken := errors.AsType[brokenError](err); err != nil && !broken && !errors.Is(err, errMalformed) {
		return errMalformed.WithMessage("the payload ends within %s", field)
	}
	return err
}

const (
	// firstRoom is how much of a payload is made room for before any of it is
	// there, and secondRoom how much once that is full: a frame that says that it
	// is large is not believed. From there on room doubles.
	firstRoom  = 16 << 10
	secondRoom = 256 << 10
)

// answer sends the answer to one request.
func (c *conn) answer(frame []byte, h budget.Hold) { c.out.send(answer{frame, h}) }

// sent is called when an answer is out of our hands.
func (c *conn) sent(a *answer) {
	if a.hold.Taken() > 0 {
		c.unsent.leave(a.hold.Taken())
		a.hold.Release()
	}
	<-c.slots
}

// broken is called when the client does not take answers anymore.
func (c *conn) broken(err error) {
	c.door.logger.DebugContext(c.ctx, "a client takes no answers", "address", c.address, "error", err)
	c.endsWith(err, endedSlowReader)
	c.cut()
}

// cut closes the connection at once, without the farewell of TLS, for which there
// may be no room. Whoever reads or writes it ends it.
func (c *conn) cut() {
	c.cancel()
	c.socket.Close()
}

// fail answers a request with an error.
func (c *conn) fail(r ticket, err error) {
	c.door.metrics.answered(r, err)
	c.answer(errorFrame(c.message(c.ctx, err), c.gzip, r.id), budget.Hold{})
}

// hangUp answers with an error and has the connection end.
func (c *conn) hangUp(r ticket, err error) bool {
	why := endedMalformed
	if errs.KindOf(err) == errs.Unauthenticated {
		why = endedUnauthorized
	}
	c.endsFor(why)
	c.fail(r, err)
	c.stopping.Store(true)
	return false
}

// stopReading has the connection end once what it was asked is answered.
func (c *conn) stopReading() {
	c.endsFor(endedByStop)
	c.stopping.Store(true)
	_ = c.net.SetReadDeadline(time.Unix(1, 0))
}

const (
	// lingerTime and lingerBytes bound how long what a client still sends is
	// read after our last word: bytes that nobody has read when a connection is
	// closed would take that word back.
	lingerTime  = time.Second
	lingerBytes = 1 << 20
)

func (c *conn) linger() {
	type closeWriter interface{ CloseWrite() error }
	w, ok := c.net.(closeWriter)
	if !ok || w.CloseWrite() != nil || c.net.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	scratch := getBuffer(readAhead)
	defer putBuffer(scratch)
	for left := lingerBytes; left > 0; {
		n, err := c.net.Read(scratch[:readAhead])
		if err != nil {
			return
		}
		left -= n
	}
}

// message is what a client is told of an error. What is not meant for it goes to
// the log.
func (c *conn) message(ctx context.Context, err error) string {
	masked := errs.Mask(ctx, c.door.logger, err)
	message := masked.Error()
	if e, ok := errs.From(masked); ok {
		message = e.Message()
	}
	if after, ok := errs.RetryAfter(err); ok {
		message += fmt.Sprintf(" (retry after %s)", after)
	}
	return message
}

// lost is called when the goroutine of a request or of the connection panicked.
func (c *conn) lost(error) { c.cut() }

func panicked(value any) error {
	return fmt.Errorf("panic in the binary protocol: %v\n%s", value, debug.Stack())
}
