package binproto

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sluiceio/sluice/services/kit/errs"
)

// errBusy is that requests under way take all the memory they may.
var errBusy = errs.New(errs.Unavailable, "OVERLOADED", "too many bytes of requests are under way").WithRetryAfter(time.Second)

// A budget is for bytes that all connections share.
type budget struct {
	bytes *semaphore.Weighted
	// How many there are.
	whole int64
	// How long a request waits for others to leave room.
	patience time.Duration
	// relieve hangs up on a client that holds bytes and makes nothing of them. It
	// is called now and then while somebody waits.
	relieve func()
	// When that was, since started.
	relieved atomic.Int64
	// What the door has of it.
	taken atomic.Int64
}

const (
	// relief is how often somebody who waits has the budget relieved.
	relief = 100 * time.Millisecond
	// reliefAll is how often all who wait have, however many they are.
	reliefAll = 10 * time.Millisecond
)

// relieveInTurn relieves the budget, unless another who waits just has.
func (b *budget) relieveInTurn() {
	now, last := int64(time.Since(started)), b.relieved.Load()
	if now-last >= int64(reliefAll) && b.relieved.CompareAndSwap(last, now) {
		b.relieve()
	}
}

// acquire takes bytes, and waits for others to leave room, but not for long: who
// waits may himself hold what they wait for.
func (b *budget) acquire(ctx context.Context, n int64) error {
	if !b.bytes.TryAcquire(n) {
		ctx, cancel := context.WithTimeout(ctx, b.patience)
		defer cancel()
		defer every(relief, b.relieveInTurn)()
		if err := b.bytes.Acquire(ctx, n); err != nil {
			return errBusy
		}
	}
	b.taken.Add(n)
	return nil
}

func (b *budget) release(n int64) {
	b.taken.Add(-n)
	b.bytes.Release(n)
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

// A hold is what one request has taken of a budget.
type hold struct {
	budget *budget
	taken  int64
}

// grow takes from the budget until so many bytes are taken, or all that there are.
func (h *hold) grow(ctx context.Context, to int64) error {
	to = min(to, h.budget.whole)
	if more := to - h.taken; more > 0 {
		if err := h.budget.acquire(ctx, more); err != nil {
			return err
		}
		h.taken = to
	}
	return nil
}

// shrink gives back all but so many bytes.
func (h *hold) shrink(to int64) {
	if h.taken > to {
		h.budget.release(h.taken - to)
		h.taken = to
	}
}

func (h *hold) release() { h.shrink(0) }
