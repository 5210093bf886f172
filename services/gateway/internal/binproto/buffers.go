package binproto

import (
	"math/bits"
	"sync"
)

// Buffers are pooled by size, four sizes to each power of two, so that one large
// request does not leave a large buffer in the hands of small ones, and that no
// buffer is much larger than what it was taken for.
const (
	smallestBuffer = 4 << 10
	// Larger ones are not kept.
	largestBuffer = 16 << 20

	perDoubling = 4
)

var buffers [perDoubling*(24-12) + 1]sync.Pool

// headers are what pooled buffers were put into, for the next ones.
var headers sync.Pool

// bufferClass is the class of the smallest buffers with room for n bytes.
func bufferClass(n int) int {
	if n <= smallestBuffer {
		return 0
	}
	// below < n <= 2*below
	doublings := bits.Len(uint(n-1)) - bits.Len(uint(smallestBuffer))
	below := smallestBuffer << doublings
	step := below / perDoubling
	return perDoubling*doublings + (n-below+step-1)/step
}

// classSize is the size of the buffers of a class.
func classSize(class int) int {
	below := smallestBuffer << (class / perDoubling)
	return below + class%perDoubling*(below/perDoubling)
}

// bufferSize is how large the buffer is that getBuffer returns.
func bufferSize(n int) int {
	if n > largestBuffer {
		return n
	}
	return classSize(bufferClass(n))
}

// getBuffer returns a buffer with room for n bytes, and without any.
func getBuffer(n int) []byte {
	if n > largestBuffer {
		return make([]byte, 0, n)
	}
	class := bufferClass(n)
	if header, ok := buffers[class].Get().(*[]byte); ok {
		b := (*header)[:0]
		*header = nil
		headers.Put(header)
		return b
	}
	return make([]byte, 0, classSize(class))
}

// putBuffer gives a buffer back. Nobody may hold a part of it anymore.
func putBuffer(b []byte) {
	size := cap(b)
	if size < smallestBuffer || size > largestBuffer {
		return
	}
	class := bufferClass(size)
	if classSize(class) != size {
		return
	}
	header, ok := headers.Get().(*[]byte)
	if !ok {
		header = new([]byte)
	}
	*header = b
	buffers[class].Put(header)
}
