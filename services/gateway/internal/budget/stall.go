package budget

import (
	"sync/atomic"
	"time"
)

// A Stall tells since when a client has kept bytes of a budget waiting: for the
// rest of a request, or for room in its socket. The zero value is that none waits.
type Stall struct {
	// 0 while none waits.
	since atomic.Int64
}

// started is what stalls count from, so that they keep to the monotonic clock.
var started = time.Now()

// Begin says that something waits from now on.
func (s *Stall) Begin() { s.since.Store(int64(time.Since(started)) + 1) }

// End says that nothing waits.
func (s *Stall) End() { s.since.Store(0) }

// Lasting returns for how long something has waited, 0 when nothing does.
func (s *Stall) Lasting() time.Duration {
	since := s.since.Load()
	if since == 0 {
		return 0
	}
	return time.Since(started) - time.Duration(since) + 1
}
