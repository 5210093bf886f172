package lease

import (
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Grant is one lease, from when etcd gave it to when it was lost. It is never
// revived: after a loss the session has another grant.
type Grant struct {
	// ID is etcd's id of the lease, to bind keys to.
	ID clientv3.LeaseID

	start time.Time
	// deadline is when etcd may end the lease, in nanoseconds after start.
	// Monotonic, so a clock that is set does not move it.
	deadline atomic.Int64
	once     sync.Once
	lost     chan struct{}
}

func newGrant(id clientv3.LeaseID, asked time.Time, ttl time.Duration) *Grant {
	g := &Grant{ID: id, start: asked, lost: make(chan struct{})}
	g.deadline.Store(int64(ttl))
	return g
}

// Lost is closed when the lease is gone or can no longer be relied on.
func (g *Grant) Lost() <-chan struct{} { return g.lost }

// Alive reports whether the lease can be relied on at this moment. It reads the
// clock, so it is right even straight after the process was paused, when Lost
// is not closed yet.
func (g *Grant) Alive() bool {
	select {
	case <-g.lost:
		return false
	default:
		return g.remaining() > 0
	}
}

// remaining is how long the lease can still be relied on.
func (g *Grant) remaining() time.Duration {
	return time.Duration(g.deadline.Load()) - time.Since(g.start)
}

// renewed notes that a keep-alive which was sent at asked was answered.
func (g *Grant) renewed(asked time.Time, ttl time.Duration) {
	g.deadline.Store(int64(asked.Sub(g.start) + ttl))
}

func (g *Grant) end() { g.once.Do(func() { close(g.lost) }) }
