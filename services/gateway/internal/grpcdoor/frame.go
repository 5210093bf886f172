package grpcdoor

import "encoding/binary"

// What of HTTP/2 (RFC 9113) the door looks at. The rest is grpc-go's to judge.
const (
	// preface is how many bytes a client says before its first frame.
	preface   = 24
	frameHead = 9
	// maxFrame is the longest frame that grpc-go lets clients send.
	maxFrame = 16 << 10

	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameContinuation = 0x9

	flagEnd        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8

	// nowhere is a stream that there never is: servers, whose streams have even
	// numbers, open none here. What comes on it is dropped, and counts for the flow
	// control of its connection.
	nowhere = 2
)

// A frame is the head of one.
type frame struct {
	length      int
	kind, flags byte
	stream      uint32
}

// parseFrame reads the head of a frame, which has frameHead bytes.
func parseFrame(b []byte) frame {
	return frame{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		kind:   b[3],
		flags:  b[4],
		stream: binary.BigEndian.Uint32(b[5:]) &^ (1 << 31),
	}
}

// ends says that its sender ends a stream with it.
func (f frame) ends() bool {
	return f.kind == frameReset || f.flags&flagEnd != 0 && (f.kind == frameHeaders || f.kind == frameData)
}

// besideFrame is about what grpc-go takes for a frame of data beside its buffer.
const besideFrame = 128

// frameCost is what grpc-go takes for a frame of data that nobody has read: a buffer
// of the next size that it pools.
func frameCost(length int) int64 {
	switch {
	case length == 0:
		return 0
	case length <= 1<<10:
	case length <= 4<<10:
		length = 4 << 10
	case length <= 16<<10:
		length = 16 << 10
	}
	return int64(length) + besideFrame
}

// A scanner finds the frames in what a server writes.
type scanner struct {
	head [frameHead]byte
	// How much of head is there, and how much of the frame is to come.
	have, left int
}

// scan calls each frame whose head ends in b.
func (s *scanner) scan(b []byte, each func(frame)) {
	for len(b) > 0 {
		if s.left > 0 {
			n := min(s.left, len(b))
			s.left -= n
			b = b[n:]
			continue
		}
		n := copy(s.head[s.have:], b)
		s.have += n
		b = b[n:]
		if s.have == frameHead {
			f := parseFrame(s.head[:])
			s.have, s.left = 0, f.length
			each(f)
		}
	}
}
