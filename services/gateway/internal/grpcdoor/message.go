package grpcdoor

import "encoding/binary"

// headSize is what stands before a message of gRPC: whether it is compressed, in a
// byte, and its length, big endian.
const headSize = 5

// messages follows the messages in the data of one call.
type messages struct {
	head [headSize]byte
	// How much of head has come, 0 between messages.
	have int
	// Of the message whose head is whole: what has come, and what has not.
	arrived, left int64
	compressed    bool
	// How many have begun.
	begun int
}

// within says that a message has begun and not ended.
func (m *messages) within() bool { return m.have > 0 }

// length is the message's, 0 while that is not known.
func (m *messages) length() int64 { return m.arrived + m.left }

// take follows some bytes.
func (m *messages) take(b []byte) {
	for len(b) > 0 {
		if m.have == 0 {
			m.begun++
			m.arrived, m.left = 0, 0
		}
		if m.have < headSize {
			n := copy(m.head[m.have:], b)
			m.have += n
			b = b[n:]
			if m.have < headSize {
				return
			}
			m.compressed = m.head[0] != 0
			m.left = int64(binary.BigEndian.Uint32(m.head[1:]))
		}
		n := min(m.left, int64(len(b)))
		m.arrived += n
		m.left -= n
		b = b[n:]
		if m.left == 0 {
			m.have = 0
		}
	}
}
