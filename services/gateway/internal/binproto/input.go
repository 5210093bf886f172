package binproto

import (
	"io"
	"net"

	"github.com/prometheus/client_golang/prometheus"
)

// readAhead is how much of a connection is read ahead while frames come in.
const readAhead = 16 << 10

// An input reads a connection through a buffer that it has only while there is
// something in it.
//
// Invariant: ahead is nil, or holds unread[:cap] as a part of it. Unread bytes
// lie in ahead or, of a frame's head, in first.
type input struct {
	conn net.Conn
	// Counts what was received.
	received prometheus.Counter
	unread   []byte
	ahead    []byte
	first    [frameHead]byte
}

// await returns when a byte can be read. While it waits it holds no buffer.
func (in *input) await() error {
	if len(in.unread) > 0 {
		return nil
	}
	in.release()
	n, err := in.receive(in.first[:])
	in.unread = in.first[:n]
	if n > 0 {
		return nil
	}
	return err
}

func (in *input) receive(p []byte) (int, error) {
	n, err := in.conn.Read(p)
	in.received.Add(float64(n))
	return n, err
}

// release gives back the buffer. What was read ahead is lost.
func (in *input) release() {
	if in.ahead != nil {
		putBuffer(in.ahead)
	}
	in.ahead, in.unread = nil, nil
}

// Read reads what was read ahead, or else from the connection: past the buffer
// when there is more room than it has.
func (in *input) Read(p []byte) (int, error) {
	if len(in.unread) == 0 {
		if len(p) >= readAhead {
			return in.receive(p)
		}
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.unread)
	in.unread = in.unread[n:]
	return n, nil
}

// direct reads the connection without a buffer, and nothing ahead: strangers get
// none before they have said who they are.
func (in *input) direct() io.Reader { return direct{in} }

type direct struct{ in *input }

// Read reads from the connection.
func (d direct) Read(p []byte) (int, error) { return d.in.receive(p) }

// skip reads up to n bytes and forgets them.
func (in *input) skip(n int) (int, error) {
	if len(in.unread) == 0 {
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n = min(n, len(in.unread))
	in.unread = in.unread[n:]
	return n, nil
}

// fill reads ahead once nothing is unread.
func (in *input) fill() error {
	if in.ahead == nil {
		in.ahead = getBuffer(readAhead)
	}
	for range maxEmptyReads {
		n, err := in.receive(in.ahead[:readAhead])
		if n > 0 {
			in.unread = in.ahead[:n]
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

const maxEmptyReads = 100
