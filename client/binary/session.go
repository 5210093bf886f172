package binary

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/klauspost/compress/gzip"
)

// A session is one connection after its handshake. One goroutine may write it
// and one read it.
type session struct {
	conn net.Conn
	// What is below TLS; conn itself without.
	socket   net.Conn
	gzip     bool
	maxFrame int

	in  *bufio.Reader
	out *bufio.Writer

	inflater *gzip.Reader
	deflater *gzip.Writer
	// Where payloads are compressed.
	packed packed
}

const (
	readBuffer  = 64 << 10
	writeBuffer = 64 << 10
)

// connect makes a connection. A *HandshakeError is the server's word; any other
// error may pass.
func connect(ctx context.Context, o *options) (_ *session, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.connectTimeout)
	defer cancel()
	conn, err := o.dial(ctx, "tcp", o.address)
	if err != nil {
		return nil, err
	}
	socket := conn
	if o.tls != nil {
		conn = tls.Client(conn, o.tls)
	}
	// The deadline and the end of ctx cut reads and writes short.
	defer interrupt(ctx, conn)()
	defer func() {
		if err != nil {
			socket.Close()
			if ctx.Err() != nil {
				err = ctx.Err()
			}
		}
	}()
	hello := append([]byte(nil), magic[:]...)
	features := uint32(0)
	if o.gzip {
		features = featureGzip
	}
	hello = binary.BigEndian.AppendUint32(hello, features)
	hello = binary.BigEndian.AppendUint32(hello, uint32(len(o.token)))
	if _, err := conn.Write(append(hello, o.token...)); err != nil {
		return nil, err
	}
	s := &session{
		conn:     conn,
		socket:   socket,
		maxFrame: o.maxFrame,
		in:       bufio.NewReaderSize(conn, readBuffer),
		out:      bufio.NewWriterSize(conn, writeBuffer),
	}
	accepted, err := readReply(s.in)
	if err != nil {
		return nil, err
	}
	s.gzip = accepted&features&featureGzip != 0
	return s, nil
}

// maxMessage is the longest message of a handshake that is read.
const maxMessage = 64 << 10

// readReply reads the server's side of the handshake and returns the features.
func readReply(r io.Reader) (uint32, error) {
	var head [13]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, fmt.Errorf("handshake: %w", err)
	}
	if [4]byte(head[:4]) != magic {
		return 0, fmt.Errorf("%w: the handshake begins with %q, expected %q", ErrMalformed, head[:4], magic[:])
	}
	status, n := Status(head[4]), binary.BigEndian.Uint32(head[9:])
	if n > maxMessage {
		return 0, fmt.Errorf("%w: a message of %d bytes in the handshake", ErrMalformed, n)
	}
	message := make([]byte, n)
	if _, err := io.ReadFull(r, message); err != nil {
		return 0, fmt.Errorf("handshake: %w", err)
	}
	if status != StatusOK {
		return 0, &HandshakeError{status, string(message)}
	}
	return binary.BigEndian.Uint32(head[5:]), nil
}

// interrupt has reads and writes of a connection fail when ctx ends. The returned
// function ends that; a deadline that was set stays.
func interrupt(ctx context.Context, conn net.Conn) func() {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = conn.SetDeadline(time.Unix(1, 0))
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}

// send writes a frame into the buffer of the connection.
func (s *session) send(id uint32, op opcode, payload []byte) error {
	if s.gzip {
		payload = s.deflate(payload)
	}
	var head [frameHead]byte
	binary.BigEndian.PutUint32(head[:], uint32(headSize+len(payload)))
	binary.BigEndian.PutUint32(head[lengthSize:], id)
	head[lengthSize+4] = byte(op)
	if _, err := s.out.Write(head[:]); err != nil {
		return err
	}
	_, err := s.out.Write(payload)
	return err
}

type packed struct{ b []byte }

func (p *packed) Write(b []byte) (int, error) {
	p.b = append(p.b, b...)
	return len(b), nil
}

// deflate returns the payload compressed, valid until the next call.
func (s *session) deflate(payload []byte) []byte {
	s.packed.b = s.packed.b[:0]
	if s.deflater == nil {
		s.deflater, _ = gzip.NewWriterLevel(&s.packed, gzip.BestSpeed)
	} else {
		s.deflater.Reset(&s.packed)
	}
	// Writing to memory does not fail.
	_, _ = s.deflater.Write(payload)
	_ = s.deflater.Close()
	return s.packed.b
}

// A response is one frame from the server. Its payload is the receiver's.
type response struct {
	id      uint32
	op      opcode
	payload []byte
}

// receive reads a frame.
func (s *session) receive() (response, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = errHungUp
		}
		return response{}, err
	}
	length := int64(binary.BigEndian.Uint32(head[:])) - headSize
	if length < 0 || length > int64(s.maxFrame) {
		return response{}, fmt.Errorf("%w: a frame with %d bytes of payload, expected 0 to %d", ErrMalformed, length, s.maxFrame)
	}
	r := response{id: binary.BigEndian.Uint32(head[lengthSize:]), op: opcode(head[lengthSize+4])}
	var err error
	limited := &io.LimitedReader{R: s.in, N: length}
	if s.gzip && length > 0 {
		r.payload, err = s.inflate(limited)
	} else {
		r.payload, err = readAll(limited, int(length), s.maxFrame)
		if err == nil && limited.N > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return r, err
}

var errHungUp = errors.New("the server hung up")

// inflate reads a compressed payload to its end.
func (s *session) inflate(r *io.LimitedReader) ([]byte, error) {
	source := bufio.NewReaderSize(r, int(min(r.N, 4<<10)))
	var err error
	if s.inflater == nil {
		s.inflater, err = gzip.NewReader(source)
	} else {
		err = s.inflater.Reset(source)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the payload is no gzip stream: %w", ErrMalformed, err)
	}
	payload, err := readAll(s.inflater, int(min(4*r.N, readBuffer)), s.maxFrame)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return payload, nil
}

// readAll reads to the end, at most so many bytes, and makes room as bytes come:
// expected is a guess.
func readAll(r io.Reader, expected, most int) ([]byte, error) {
	const first = 1 << 20
	b := make([]byte, 0, min(expected, first, most)+1)
	for {
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case err == io.EOF:
			return b, nil
		case err != nil:
			return nil, err
		case len(b) > most:
			return nil, fmt.Errorf("a payload of more than %d bytes", most)
		case len(b) == cap(b):
			grown := make([]byte, len(b), min(2*cap(b), max(most, expected)+1))
			copy(grown, b)
			b = grown
		}
	}
}

// close closes the connection at once: TLS's farewell would wait for a server that
// reads no more, and frames tell by themselves whether they are whole.
func (s *session) close() { s.socket.Close() }
