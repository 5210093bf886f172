package grpcdoor

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// errTooLarge is that a message is larger than the limit.
var errTooLarge = errs.New(errs.ResourceExhausted, "MESSAGE_TOO_LARGE", "the message is too large")

// errTwoMessages is that a call has more messages than its method takes.
var errTwoMessages = errs.New(errs.InvalidArgument, "MALFORMED_MESSAGE", "the call has more than the one message that its method takes")

// headSize is what stands before a message of gRPC: whether it is compressed, in a
// byte, and its length, big endian.
const headSize = 5

// A body is what grpc-go reads of a call. It knows where messages begin, and makes
// room for them as their bytes arrive: the length in the head is not believed.
//
// Each Read gives as much as was asked for, to the end of the message, since grpc-go
// keeps a buffer of 16 KiB for it, be there one byte or all.
type body struct {
	call   *call
	source io.ReadCloser

	head [headSize]byte
	// The part of head that grpc-go has not read.
	pending []byte
	// Of the message: what has arrived and what has not.
	arrived, left int64
	// More than its length, when it inflates.
	room     int64
	messages int
	err      error
}

// Close closes the request's body.
func (b *body) Close() error { return b.source.Close() }

// Read gives the next bytes.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.read(p)
	if err != nil {
		b.call.receiving.End()
		b.call.message.End()
		b.err = err
		if n == 0 {
			return 0, err
		}
	}
	return n, nil
}

// read is on a goroutine of grpc-go's, which recovers nothing.
func (b *body) read(p []byte) (n int, err error) {
	defer func() {
		if value := recover(); value != nil {
			b.call.fail(errs.Mask(b.call.ctx, b.call.door.deps.Logger, confine.Recovered(value)))
			n, err = 0, io.ErrUnexpectedEOF
		}
	}()
	if len(b.pending) == 0 && b.left == 0 {
		if err := b.begin(); err != nil {
			return 0, err
		}
	}
	if len(b.pending) > 0 {
		n := copy(p, b.pending)
		b.pending = b.pending[n:]
		return n, nil
	}
	if b.left > b.most() {
		b.call.fail(errTooLarge.WithMessage("the message has %d bytes, more than the limit of %d", b.left, b.most()))
		return 0, io.ErrUnexpectedEOF
	}
	p = p[:min(int64(len(p)), b.left)]
	if err := b.makeRoom(b.arrived + int64(len(p))); err != nil {
		b.call.fail(err)
		return 0, io.ErrUnexpectedEOF
	}
	n, err = b.fill(p)
	b.arrived += int64(n)
	b.left -= int64(n)
	if b.left == 0 {
		b.call.message.End()
	}
	return n, unexpected(err)
}

// most is the longest message that there may be.
func (b *body) most() int64 {
	if b.call.open {
		return maxOpenMessage
	}
	return int64(b.call.door.cfg.MaxMessageBytes)
}

// begin reads the head of the next message. Its error is io.EOF when there is none.
func (b *body) begin() error {
	if b.call.refusal != nil {
		return io.EOF
	}
	if b.messages > 0 && !b.call.streams {
		return b.end()
	}
	if !b.call.streams {
		b.call.message.Begin()
	}
	n, err := b.fill(b.head[:1])
	if n == 0 {
		return err
	}
	if b.call.streams {
		b.call.message.Begin()
	}
	if _, err := b.fill(b.head[1:]); err != nil {
		return unexpected(err)
	}
	b.messages++
	b.pending = b.head[:]
	b.arrived, b.left = 0, int64(binary.BigEndian.Uint32(b.head[1:]))
	b.room = b.left
	if b.head[0] != 0 {
		b.room = b.most()
	}
	if b.left == 0 {
		b.call.message.End()
	}
	return nil
}

// end sees to it that nothing follows the one message of a call. The stream's window
// cannot be filled anymore then: what the call holds is its message.
func (b *body) end() error {
	b.call.message.Begin()
	defer b.call.message.End()
	n, err := b.fill(b.head[:1])
	if n > 0 {
		b.call.fail(errTwoMessages)
		return io.ErrUnexpectedEOF
	}
	if errors.Is(err, io.EOF) && !b.call.open {
		b.call.request.Shrink(b.room + headerBytes(b.call))
	}
	return err
}

// headerBytes is about what the metadata of a call takes.
func headerBytes(c *call) int64 {
	var n int64
	for name, values := range c.headers {
		for _, value := range values {
			n += int64(len(name) + len(value))
		}
	}
	return n
}

// makeRoom takes room for so many bytes of the message, and for as many again while
// there are more to come. What the stream took when it began counts.
func (b *body) makeRoom(bytes int64) error {
	if b.call.open {
		return nil
	}
	room := min(2*bytes, b.left+b.arrived)
	if b.room > b.left+b.arrived {
		room = b.room
	}
	if room+maxHeaderBytes <= b.call.request.Taken() {
		return nil
	}
	// Who waits here holds what others may wait for, so he is in the way as one who has
	// stopped: if all waited for each other, nobody got through.
	b.call.receiving.Begin()
	defer b.call.receiving.End()
	return b.call.request.Grow(b.call.ctx, room+maxHeaderBytes)
}

// fill reads until p is full. Its error is io.EOF only when nothing was read.
func (b *body) fill(p []byte) (n int, err error) {
	defer b.call.receiving.End()
	for n < len(p) {
		if !b.call.streams || n > 0 || b.left > 0 {
			b.call.receiving.Begin()
		}
		var more int
		more, err = b.source.Read(p[n:])
		n += more
		if err != nil {
			break
		}
	}
	if n == len(p) {
		return n, nil
	}
	if n > 0 {
		err = unexpected(err)
	}
	return n, err
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
