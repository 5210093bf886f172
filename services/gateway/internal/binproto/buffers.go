package binproto

import (
	"math/bits"
	"sync"
)

// Buffers are pooled by size, in powers of two, so that one large request does
// not leave a large buffer in the hands of small ones.
const (
	smallestClass = 12 // 4 KiB
	largestClass  = 24 // 16 MiB; larger ones are not kept
)

var buffers [largestClass + 1]sync.Pool

// headers are what pooled buffers were put into, for the next ones.
var headers sync.Pool

// getBuffer returns a buffer with room for n bytes, and without any.
func getBuffer(n int) []byte {
	class := max(bits.Len(uint(max(n, 1)-1)), smallestClass)
	if class > largestClass {
		return make([]byte, 0, n)
	}
	if header, ok := buffers[class].Get().(*[]byte); ok {
		b := (*header)[:0]
		*header = nil
		headers.Put(header)
		return b
	}
	return make([]byte, 0, 1<<class)
}

// putBuffer gives a buffer back. Nobody may hold a part of it anymore.
func putBuffer(b []byte) {
	class := bits.Len(uint(cap(b))) - 1
	if class < smallestClass || class > largestClass || cap(b) != 1<<class {
		return
	}
	header, ok := headers.Get().(*[]byte)
	if !ok {
		header = new([]byte)
	}
	*header = b
	buffers[class].Put(header)
}
