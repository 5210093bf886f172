package binproto

import (
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// A payload reads what follows the head of one frame, and never past its end.
type payload struct {
	in   *input
	left int // bytes of the frame that were not read

	// Inflates the frame; nil when it is not compressed or nothing was read of
	// it.
	inflater   *gzip.Reader
	compressed bool
	// The stream that is inflated has ended.
	over bool

	// Gives the client its time, before each read once stride bytes were read
	// since.
	pacer interface{ pace() error }
	paced int
}

// stride is how many bytes of a frame have to come in the time that a client may
// stop for.
const stride = 64 << 10

// Read reads the payload as the sender wrote it before it was compressed.
func (p *payload) Read(b []byte) (int, error) {
	if !p.compressed {
		return p.raw(b)
	}
	if p.over {
		return 0, io.EOF
	}
	if p.inflater == nil {
		if p.left == 0 {
			// Not what the protocol says, but clear enough.
			p.over = true
			return 0, io.EOF
		}
		if err := p.inflate(); err != nil {
			return 0, err
		}
	}
	n, err := p.inflater.Read(b)
	if err != nil {
		p.over = true
	}
	return n, p.blame(err)
}

// raw reads bytes of the frame.
func (p *payload) raw(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	if err := p.pace(); err != nil {
		return 0, err
	}
	n, err := p.in.Read(b[:min(len(b), p.left)])
	return n, p.read(n, err)
}

// pace gives the client time for what is to be read, if that may have to wait.
func (p *payload) pace() error {
	if p.paced >= stride && len(p.in.unread) == 0 {
		if err := p.pacer.pace(); err != nil {
			return brokenError{err}
		}
		p.paced = 0
	}
	return nil
}

// read notes that so many bytes of the frame were read, and what an error means
// in the middle of it.
func (p *payload) read(n int, err error) error {
	p.left -= n
	p.paced += n
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		err = brokenError{err}
	}
	return err
}

// inflate begins to inflate.
func (p *payload) inflate() error {
	r, ok := inflaters.Get().(*gzip.Reader)
	if !ok {
		r = new(gzip.Reader)
	}
	if err := r.Reset((*rawPayload)(p)); err != nil {
		inflaters.Put(r)
		return p.blame(err)
	}
	p.inflater = r
	return nil
}

// blame tells a connection that broke from a stream that is no gzip.
func (p *payload) blame(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	if _, ok := errors.AsType[brokenError](err); ok {
		return err
	}
	return errMalformed.WithMessage("the payload is no sound gzip stream")
}

// release gives back what inflating took.
func (p *payload) release() {
	if p.inflater != nil {
		inflaters.Put(p.inflater)
		p.inflater = nil
		p.over = true
	}
}

// discard reads what is left of the frame and forgets it.
func (p *payload) discard() error {
	p.release()
	for p.left > 0 {
		if err := p.pace(); err != nil {
			return err
		}
		if err := p.read(p.in.skip(p.left)); err != nil {
			return err
		}
	}
	return nil
}

// inflaters take some 40 KiB each.
var inflaters sync.Pool

// rawPayload is the frame's bytes for the inflater, which would read ahead of
// what it needs, out of a buffer of its own, if there were no ReadByte.
type rawPayload payload

// Read reads bytes of the frame.
func (p *rawPayload) Read(b []byte) (int, error) { return (*payload)(p).raw(b) }

// ReadByte reads one.
func (p *rawPayload) ReadByte() (byte, error) {
	if in := p.in; p.left > 0 && len(in.unread) > 0 {
		b := in.unread[0]
		in.unread = in.unread[1:]
		p.left--
		p.paced++
		return b, nil
	}
	var one [1]byte
	_, err := (*payload)(p).raw(one[:])
	return one[0], err
}

// A brokenError is that the connection broke within a frame.
type brokenError struct{ cause error }

func (e brokenError) Error() string { return e.cause.Error() }
func (e brokenError) Unwrap() error { return e.cause }
