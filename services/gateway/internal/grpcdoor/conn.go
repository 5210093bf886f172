package grpcdoor

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"

	"github.com/sluiceio/sluice/services/gateway/internal/budget"
)

// readBuffer is how much a connection reads at once.
const readBuffer = 32 << 10

// A conn is a connection as grpc-go sees it, with TLS taken off. It gives what was
// read frame by frame: grpc-go has done with a frame when it asks for the next, and a
// frame of data comes only when there is room for it.
type conn struct {
	net.Conn
	// The socket, below TLS.
	raw  net.Conn
	door *Door

	// What is read, by grpc-go's reader only.
	in struct {
		buffer []byte
		// The part of buffer that has been read and not taken.
		from, to int
		// The frame that is given, what of its head is not given, and how much of it
		// comes after the head.
		frame frame
		bytes [frameHead]byte
		head  []byte
		left  int
		// The first byte of the frame says how many of the last are padding.
		padded bool
		// How many of the bytes left are data.
		data   int
		call   *call
		frames int
	}
	// The stream whose headers came last, and whether nothing follows them.
	opening uint32
	only    bool

	// What is written, by grpc-go's writer only.
	out     scanner
	writing budget.Stall

	// Set when the client has said that it speaks HTTP/2.
	greeted atomic.Bool
	closed  chan struct{}
	closing sync.Once

	mu struct {
		sync.Mutex
		closed  bool
		calls   map[uint32]*call
		answers map[*answer]struct{}
	}
}

func newConn(d *Door, raw net.Conn) *conn {
	c := &conn{Conn: raw, raw: raw, door: d, closed: make(chan struct{})}
	c.in.left = preface
	c.mu.calls = make(map[uint32]*call)
	c.mu.answers = make(map[*answer]struct{})
	return c
}

// Read gives the next bytes of one frame.
func (c *conn) Read(p []byte) (int, error) {
	for len(c.in.head) == 0 && c.in.left == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if len(c.in.head) > 0 {
		n := copy(p, c.in.head)
		c.in.head = c.in.head[n:]
		return n, nil
	}
	n, err := c.take(p[:min(len(p), c.in.left)])
	c.in.left -= n
	if c.in.call != nil && n > 0 {
		c.observe(p[:n])
	}
	return n, err
}

// take gives bytes that were read, or reads some.
func (c *conn) take(p []byte) (int, error) {
	if c.in.from == c.in.to {
		if len(p) >= readBuffer/2 {
			return c.Conn.Read(p)
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.in.buffer[c.in.from:c.in.to])
	c.in.from += n
	return n, nil
}

// fill reads more behind what has not been taken.
func (c *conn) fill() error {
	if c.in.buffer == nil {
		c.in.buffer = make([]byte, readBuffer)
	}
	c.in.to = copy(c.in.buffer, c.in.buffer[c.in.from:c.in.to])
	c.in.from = 0
	n, err := c.Conn.Read(c.in.buffer[c.in.to:])
	c.in.to += n
	if n > 0 {
		return nil
	}
	return err
}

// next ends a frame and begins another.
func (c *conn) next() error {
	c.end()
	for c.in.to-c.in.from < frameHead {
		if err := c.fill(); err != nil {
			return err
		}
	}
	copy(c.in.bytes[:], c.in.buffer[c.in.from:])
	c.in.from += frameHead
	c.begin(parseFrame(c.in.bytes[:]))
	c.in.head = c.in.bytes[:]
	return nil
}

// begin sees to a frame before grpc-go does, and waits until there is room for it.
func (c *conn) begin(f frame) {
	c.in.frame, c.in.left = f, f.length
	c.in.frames++
	switch f.kind {
	case frameHeaders:
		c.opening, c.only = f.stream, f.ends()
	case frameData:
		call := c.call(f.stream)
		switch {
		case call == nil, f.length > maxFrame:
			// grpc-go drops it, or closes the connection.
		case !call.expect(f.length):
			binary.BigEndian.PutUint32(c.in.bytes[5:], nowhere)
		default:
			c.in.call = call
			c.in.padded, c.in.data = f.flags&flagPadded != 0, f.length
		}
	}
}

// observe has a call see its data.
func (c *conn) observe(b []byte) {
	if c.in.padded {
		c.in.padded = false
		c.in.data = max(0, c.in.frame.length-1-int(b[0]))
		b = b[1:]
	}
	b = b[:min(len(b), c.in.data)]
	c.in.data -= len(b)
	c.in.call.observe(b)
}

// end sees to a frame of which grpc-go has taken notice.
func (c *conn) end() {
	f := c.in.frame
	switch {
	case c.in.frames == 0:
	case f.kind == frameReset:
		c.finish(f.stream)
	case c.in.call != nil:
		c.in.call.endFrame(f.ends())
		c.in.call = nil
	case c.only && (f.kind == frameHeaders || f.kind == frameContinuation):
		// There is no call before the last of these.
		if call := c.call(c.opening); call != nil {
			call.endFrame(true)
		}
	}
	if c.in.frames == 1 {
		c.greeted.Store(true)
	}
}

// Write writes, and takes notice of the calls that end with it.
func (c *conn) Write(p []byte) (int, error) {
	c.writing.Begin()
	n, err := c.Conn.Write(p)
	c.writing.End()
	c.out.scan(p[:n], func(f frame) {
		if f.ends() {
			c.finish(f.stream)
		}
	})
	return n, err
}

// Close closes the connection and gives back what its calls hold, but for handlers
// that still run. That is done when it returns, whoever has called it first: grpc-go
// closes a connection from several goroutines, and its stop waits for one of them.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.closing.Do(c.giveBack)
	return err
}

func (c *conn) giveBack() {
	c.mu.Lock()
	c.mu.closed = true
	close(c.closed)
	calls, answers := c.mu.calls, c.mu.answers
	c.mu.calls, c.mu.answers = nil, nil
	c.mu.Unlock()
	c.writing.End()
	c.door.forget(c)
	for _, call := range calls {
		call.leave()
	}
	for a := range answers {
		a.release()
	}
}

// hangUp closes the connection of a client that takes nothing. TLS would say goodbye,
// and wait seconds for him to take that.
func (c *conn) hangUp() {
	_ = c.raw.Close()
	_ = c.Close()
}

// call returns the call of a stream, or nil.
func (c *conn) call(stream uint32) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.calls[stream]
}

// enter enters a call whose headers have just come. It is false when it is too late.
func (c *conn) enter(call *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return false
	}
	c.mu.calls[c.opening] = call
	return true
}

// finish takes out the call of a stream of which grpc-go keeps nothing anymore but
// the answer.
func (c *conn) finish(stream uint32) {
	c.mu.Lock()
	call := c.mu.calls[stream]
	delete(c.mu.calls, stream)
	c.mu.Unlock()
	if call != nil {
		call.leave()
	}
}
