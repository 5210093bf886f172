package binproto

import (
	"encoding/binary"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// newFrame returns a buffer with room for a payload of so many bytes behind the
// head, which seal fills in.
func newFrame(payload int) []byte {
	return getBuffer(frameHead + payload)[:frameHead]
}

// seal makes a frame of a buffer from newFrame, which it takes over.
func seal(b []byte, compress bool, id uint32, op opcode) []byte {
	if compress {
		b = deflate(b)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-lengthSize))
	binary.BigEndian.PutUint32(b[lengthSize:], id)
	b[lengthSize+4] = byte(op)
	return b
}

// deflate returns a buffer with the same room at its head and the payload
// compressed.
func deflate(b []byte) []byte {
	out := frameBuffer{newFrame(len(b) - frameHead)}
	w, ok := deflaters.Get().(*gzip.Writer)
	if !ok {
		// Answers are many and read once: what speed costs in size is little.
		w, _ = gzip.NewWriterLevel(&out, gzip.BestSpeed)
	}
	w.Reset(&out)
	// A frameBuffer takes everything.
	_, _ = w.Write(b[frameHead:])
	_ = w.Close()
	w.Reset(nil)
	deflaters.Put(w)
	putBuffer(b)
	return out.b
}

var deflaters sync.Pool

type frameBuffer struct{ b []byte }

// Write appends.
func (f *frameBuffer) Write(p []byte) (int, error) {
	f.b = append(f.b, p...)
	return len(p), nil
}

// errorFrame is an answer with opcode 0xFF.
func errorFrame(message string, compress bool, id uint32) []byte {
	return seal(append(newFrame(len(message)), message...), compress, id, opError)
}
