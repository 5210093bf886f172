package grpcdoor

import (
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/services/gateway/internal/budget"
)

// answerPiece is how much of an answer a client has to take at a time, or it stalls.
const answerPiece = 64 << 10

// An answer is one that holds room. grpc-go gives its bytes back, piece by piece, as
// it has written them to the connection, or when it will not.
type answer struct {
	message proto.Message
	conn    *conn
	hold    budget.Hold

	bytes *[]byte
	// Pieces that are not given back.
	left     atomic.Int64
	released sync.Once
	// The client keeps a piece waiting.
	sending budget.Stall
}

// parcel makes of the response to a call what grpc-go is given.
func (c *call) parcel(resp any) any {
	m, ok := resp.(proto.Message)
	if !ok || c.answer.Taken() == 0 {
		return resp
	}
	a := &answer{message: m, conn: c.conn, hold: c.answer}
	c.answer = budget.Hold{}
	return a
}

// marshal returns the bytes in pieces.
func (a *answer) marshal() (mem.BufferSlice, error) {
	size := proto.Size(a.message)
	pool := mem.DefaultBufferPool()
	bytes := pool.Get(size)
	b, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*bytes)[:0], a.message)
	a.message = nil
	if err != nil || len(b) == 0 || len(b) > cap(*bytes) {
		a.release()
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	a.bytes = bytes
	var pieces mem.BufferSlice
	for len(b) > 0 {
		// What is not larger than a buffer that is pooled is not given back, so none
		// but the only piece is that small.
		n := min(len(b), answerPiece)
		if len(b) < 2*answerPiece {
			n = len(b)
		}
		piece := b[:n]
		pieces = append(pieces, mem.NewBuffer(&piece, givenBack{a}))
		b = b[n:]
	}
	a.left.Store(int64(len(pieces)))
	a.sending.Begin()
	a.conn.send(a)
	return pieces, nil
}

// givenBack is the pool to which grpc-go gives back the pieces of an answer.
type givenBack struct{ answer *answer }

// Get is there for the interface.
func (givenBack) Get(length int) *[]byte { return mem.DefaultBufferPool().Get(length) }

// Put takes note of a piece.
func (g givenBack) Put(*[]byte) {
	if g.answer.left.Add(-1) > 0 {
		g.answer.sending.Begin()
		return
	}
	g.answer.conn.sent(g.answer)
	g.answer.release()
	mem.DefaultBufferPool().Put(g.answer.bytes)
}

// release gives back what the answer holds.
func (a *answer) release() {
	a.released.Do(func() {
		a.sending.End()
		a.hold.Release()
	})
}

// send enters an answer in the books of its connection.
func (c *conn) send(a *answer) {
	c.mu.Lock()
	closed := c.mu.closed
	if !closed {
		c.mu.answers[a] = struct{}{}
	}
	c.mu.Unlock()
	if closed {
		a.release()
	}
}

// sent takes an answer out.
func (c *conn) sent(a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.answers, a)
}
