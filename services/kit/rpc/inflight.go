package rpc

import (
	"math"
	"sync"
	"sync/atomic"
)

// inFlight counts calls until it is closed. A lock and a WaitGroup do the same, but
// with four writes to memory that the calls of all cores share, instead of two.
type inFlight struct {
	// n is how many there are, less closed once no more may begin.
	n atomic.Int64
	// none is closed when no more may begin and none is left.
	none        chan struct{}
	close, ends sync.Once
}

// closed is beyond every number of calls.
const closed = math.MaxInt64 / 2

func newInFlight() *inFlight { return &inFlight{none: make(chan struct{})} }

// begin counts a call, unless no more may begin. end has to follow.
func (f *inFlight) begin() bool {
	if f.n.Add(1) > 0 {
		return true
	}
	f.end()
	return false
}

func (f *inFlight) end() { f.ended(f.n.Add(-1)) }

// refuse lets no more begin.
func (f *inFlight) refuse() {
	f.close.Do(func() { f.ended(f.n.Add(-closed)) })
}

// ended is told what n has become. Calls that are refused count for a moment, so
// it may become none again.
func (f *inFlight) ended(n int64) {
	if n == -closed {
		f.ends.Do(func() { close(f.none) })
	}
}
