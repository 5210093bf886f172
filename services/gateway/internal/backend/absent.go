package backend

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// absentees keeps requests for topics that do not exist from reaching the
// coordinator one by one. The zero value is ready.
//
// A name that the coordinator did not know is taken for absent for a moment, and
// only so many names are asked for in a second. So a topic that was just made
// through another gateway is found at once by whoever did not ask for it before,
// and by everybody after absentFor.
type absentees struct {
	mu struct {
		sync.Mutex
		// Until when a name is taken for absent. At most maxAbsent.
		until map[string]time.Time
		asks  *rate.Limiter
	}
}

const (
	absentFor  = 500 * time.Millisecond
	maxAbsent  = 1000
	askPerSec  = 100
	asksAtOnce = 100
)

// ask says whether the coordinator may be asked for a name.
func (a *absentees) ask(name string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Before(a.mu.until[name]) {
		return false
	}
	if a.mu.asks == nil {
		a.mu.asks = rate.NewLimiter(askPerSec, asksAtOnce)
	}
	return a.mu.asks.AllowN(now, 1)
}

// note remembers that the coordinator does not know a name.
func (a *absentees) note(name string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.until == nil || len(a.mu.until) >= maxAbsent {
		a.mu.until = make(map[string]time.Time)
	}
	a.mu.until[name] = now.Add(absentFor)
}
