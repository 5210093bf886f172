package binary_test

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// server speaks the protocol as a test says, byte by byte and without the code
// of the client.
type server struct {
	tb      testing.TB
	address string
	// The features that handshakes accept and the status that they end with.
	features uint32
	status   byte
	// The status is that of connections from this one on; 0 is all.
	refusedFrom int
	// answer is called for each frame, by one goroutine a connection; nil bytes
	// hang up.
	answer func(connection int, id uint32, op byte, payload []byte) []byte
	// Spoken with clients unless it is nil.
	tls *tls.Config
	// Gets a value for each frame, none of which is answered, unless it is nil.
	silent chan struct{}

	over  chan struct{}
	mu    sync.Mutex
	conns []net.Conn
	hello []byte
}

func serve(tb testing.TB, s *server) *server {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	s.tb, s.address, s.over = tb, listener.Addr().String(), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			n := len(s.conns)
			s.mu.Unlock()
			all.Go(func() {
				defer conn.Close()
				if s.tls != nil {
					s.connection(n, tls.Server(conn, s.tls))
					return
				}
				s.connection(n, conn)
			})
		}
	})
	tb.Cleanup(func() {
		listener.Close()
		close(s.over)
		s.hangUp()
		all.Wait()
	})
	return s
}

// hangUp closes the connections that there are.
func (s *server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		conn.Close()
	}
}

func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *server) connection(n int, conn net.Conn) {
	head := make([]byte, 12)
	if _, err := io.ReadFull(conn, head); err != nil {
		return
	}
	if string(head[:4]) != "ES01" {
		_, _ = conn.Write([]byte("ES01\x01\x00\x00\x00\x00\x00\x00\x00\x00"))
		return
	}
	token := make([]byte, binary.BigEndian.Uint32(head[8:]))
	if _, err := io.ReadFull(conn, token); err != nil {
		return
	}
	s.mu.Lock()
	s.hello = append(head, token...)
	s.mu.Unlock()
	message, status := "", s.status
	if n < s.refusedFrom {
		status = 0
	}
	if status != 0 {
		message = "because"
	}
	features := binary.BigEndian.Uint32(head[4:]) & s.features
	reply := append([]byte("ES01"), status)
	reply = binary.BigEndian.AppendUint32(reply, features)
	reply = binary.BigEndian.AppendUint32(reply, uint32(len(message)))
	if _, err := conn.Write(append(reply, message...)); err != nil || status != 0 {
		return
	}
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(head)-5)
		if _, err := io.ReadFull(conn, payload); err != nil {
			return
		}
		if features&1 != 0 {
			payload = unzip(payload)
		}
		if s.silent != nil {
			s.silent <- struct{}{}
			<-s.over
			return
		}
		answer := s.answer(n, binary.BigEndian.Uint32(head[4:]), head[8], payload)
		if answer == nil {
			return
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

func frame(id uint32, op byte, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(5+len(payload)))
	b = binary.BigEndian.AppendUint32(b, id)
	return append(append(b, op), payload...)
}

// placed is the answer to a produce with one record.
func placed(offset uint64) []byte {
	b := binary.BigEndian.AppendUint32(nil, 1)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint64(b, offset)
	return append(b, 0)
}

func zip(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func unzip(b []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil
	}
	out, err := io.ReadAll(r)
	if err != nil {
		return nil
	}
	return out
}
