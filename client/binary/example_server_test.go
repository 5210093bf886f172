package binary_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
)

// demoServer stands for a server in the examples: one partition, in memory.
type demoServer struct {
	listener net.Listener
	conns    sync.WaitGroup

	mu      sync.Mutex
	records [][]byte // each as it is in an answer, from key_len on
}

func startDemo() *demoServer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		// Examples have no other way to fail.
		return &demoServer{}
	}
	s := &demoServer{listener: listener}
	s.conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.conns.Go(func() {
				defer conn.Close()
				_ = s.serve(conn)
			})
		}
	})
	return s
}

func (s *demoServer) address() string { return s.listener.Addr().String() }

func (s *demoServer) stop() {
	s.listener.Close()
	s.conns.Wait()
}

func (s *demoServer) serve(conn net.Conn) error {
	hello := make([]byte, 12)
	if _, err := io.ReadFull(conn, hello); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("ES01\x00\x00\x00\x00\x00\x00\x00\x00\x00")); err != nil {
		return err
	}
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(conn, head); err != nil {
			return err
		}
		payload := make([]byte, binary.BigEndian.Uint32(head)-5)
		if _, err := io.ReadFull(conn, payload); err != nil {
			return err
		}
		answer := s.produce
		if head[8] == 0x02 {
			answer = s.consume
		}
		// What follows the topic.
		body := answer(payload[2+binary.BigEndian.Uint16(payload):])
		if _, err := conn.Write(frame(binary.BigEndian.Uint32(head[4:]), head[8]|0x80, body)); err != nil {
			return err
		}
	}
}

func (s *demoServer) produce(b []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if producer := int32(binary.BigEndian.Uint32(b)); producer > 0 {
		b = b[producer:]
	}
	n := binary.BigEndian.Uint32(b[4:])
	b = b[8:]
	answer := binary.BigEndian.AppendUint32(nil, n)
	for range n {
		size := 4
		if key := int32(binary.BigEndian.Uint32(b)); key > 0 {
			size += int(key)
		}
		size += 4 + int(binary.BigEndian.Uint32(b[size:]))
		answer = binary.BigEndian.AppendUint32(answer, 0)
		answer = binary.BigEndian.AppendUint64(answer, uint64(len(s.records)))
		answer = append(answer, 0)
		s.records = append(s.records, b[:size])
		b = b[size+4+8:]
	}
	return answer
}

func (s *demoServer) consume(b []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	offset, end := binary.BigEndian.Uint64(b[4:]), uint64(len(s.records))
	answer := binary.BigEndian.AppendUint64(nil, end)
	answer = binary.BigEndian.AppendUint64(answer, end)
	answer = binary.BigEndian.AppendUint32(answer, uint32(end-offset))
	for ; offset < end; offset++ {
		answer = binary.BigEndian.AppendUint32(answer, 0)
		answer = binary.BigEndian.AppendUint64(answer, offset)
		answer = binary.BigEndian.AppendUint64(answer, 1763500000000)
		answer = append(answer, s.records[offset]...)
	}
	return answer
}
