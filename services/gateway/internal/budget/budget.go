// Package budget bounds the bytes that many requests hold together.
//
// A request takes bytes before it makes use of the memory and gives them back when
// it has none of it anymore. Where there are none left it waits for others, but not
// for long: who waits may himself hold what they wait for. Meanwhile those are looked
// for who hold some and make nothing of it, a client that stopped in the middle of
// a request or that does not take its answer (a Stall), since a crowd of these would
// otherwise keep everybody out.
package budget

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// A Budget is for bytes that all requests of a door share.
type Budget struct {
	cfg Config
	// When it was relieved, since started.
	relieved atomic.Int64
	// What the door has of it.
	taken atomic.Int64
}

// Config is what a Budget is made of.
type Config struct {
	// Bytes may be shared with other doors.
	Bytes *semaphore.Weighted
	// Whole is how many bytes there are.
	Whole int64
	// Patience is how long a request waits for others to leave room.
	Patience time.Duration
	// Relieve hangs up on a client that holds bytes and makes nothing of them. It
	// is called now and then while somebody waits.
	Relieve func()
	// Busy is the error of who waited in vain.
	Busy error
}

// New returns a budget of which nothing is taken.
func New(cfg Config) *Budget { return &Budget{cfg: cfg} }

const (
	// relief is how often somebody who waits has the budget relieved.
	relief = 100 * time.Millisecond
	// reliefAll is how often all who wait have, however many they are.
	reliefAll = 10 * time.Millisecond
)

// Taken returns how many bytes are taken.
func (b *Budget) Taken() int64 { return b.taken.Load() }

// relieveInTurn relieves the budget, unless another who waits just has.
func (b *Budget) relieveInTurn() {
	now, last := int64(time.Since(started)), b.relieved.Load()
	if now-last >= int64(reliefAll) && b.relieved.CompareAndSwap(last, now) {
		b.cfg.Relieve()
	}
}

func (b *Budget) tryAcquire(n int64) bool {
	if !b.cfg.Bytes.TryAcquire(n) {
		return false
	}
	b.taken.Add(n)
	return true
}

// acquire takes bytes, and waits for others to leave room.
func (b *Budget) acquire(ctx context.Context, n int64) error {
	if b.tryAcquire(n) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Patience)
	defer cancel()
	defer every(relief, b.relieveInTurn)()
	if err := b.cfg.Bytes.Acquire(ctx, n); err != nil {
		return b.cfg.Busy
	}
	b.taken.Add(n)
	return nil
}

func (b *Budget) release(n int64) {
	b.taken.Add(-n)
	b.cfg.Bytes.Release(n)
}

// every calls do again and again until the returned function is called, which
// waits for a call under way.
func every(d time.Duration, do func()) (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		ticks := time.NewTicker(d)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				do()
			case <-done:
				return
			}
		}
	})
	return func() {
		close(done)
		running.Wait()
	}
}
