package confine

import (
	"sync"
	"sync/atomic"
)

// A Fan does the parts of one request side by side. The zero value is ready.
type Fan struct {
	parts sync.WaitGroup
	first atomic.Pointer[Error]
}

// Do begins a part.
func (f *Fan) Do(part func()) {
	f.parts.Go(func() {
		defer func() {
			if value := recover(); value != nil {
				f.first.CompareAndSwap(nil, Recovered(value))
			}
		}()
		part()
	})
}

// Wait returns when all parts are done. It panics if one of them did, with the
// *Error that has that part's stack: so the request fails as if it had done the part
// itself.
func (f *Fan) Wait() {
	f.parts.Wait()
	if first := f.first.Load(); first != nil {
		panic(first)
	}
}
