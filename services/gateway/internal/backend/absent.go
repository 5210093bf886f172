package backend

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// absentees keeps requests for topics that do not exist from reaching the
// coordinator one by one. The zero value is ready.
//
// A name that the coordinator did not know is asked for again a few times at once,
// then no oftener than every absentFor, and only so many names are asked for in a
// second. So a topic that was just made through another gateway is found at once,
// also by who has found it missing before, and by those who ask all the time after
// absentFor.
type absentees struct {
	mu struct {
		sync.Mutex
		// How often the names that were not there may be asked for. At most
		// maxAbsent.
		names map[string]*rate.Limiter
		asks  *rate.Limiter
	}
}

const (
	absentFor   = 500 * time.Millisecond
	absentBurst = 5
	maxAbsent   = 1000
	askPerSec   = 100
	asksAtOnce  = 100
)

// ask says whether the coordinator may be asked for a name.
func (a *absentees) ask(name string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if own := a.mu.names[name]; own != nil && !own.AllowN(now, 1) {
		return false
	}
	if a.mu.asks == nil {
		a.mu.asks = rate.NewLimiter(askPerSec, asksAtOnce)
	}
	return a.mu.asks.AllowN(now, 1)
}

// note remembers that the coordinator does not know a name.
func (a *absentees) note(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.names[name] != nil {
		return
	}
	if a.mu.names == nil || len(a.mu.names) >= maxAbsent {
		a.mu.names = make(map[string]*rate.Limiter)
	}
	a.mu.names[name] = rate.NewLimiter(rate.Every(absentFor), absentBurst)
}
