package binproto

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sluiceio/sluice/services/kit/errs"
)

// errBusy is that requests under way take all the memory they may.
var errBusy = errs.New(errs.Unavailable, "OVERLOADED", "too many bytes of requests are under way").WithRetryAfter(time.Second)

// A hold is what one request has taken of a budget of bytes.
type hold struct {
	budget *semaphore.Weighted
	taken  int64
}

// grow takes from the budget until so many bytes are taken, and waits for others
// to leave room, but not for long: who waits may himself hold what they wait for.
func (h *hold) grow(ctx context.Context, to int64, patience time.Duration) error {
	more := to - h.taken
	if more <= 0 {
		return nil
	}
	if !h.budget.TryAcquire(more) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := h.budget.Acquire(ctx, more); err != nil {
			return errBusy
		}
	}
	h.taken = to
	return nil
}

// shrink gives back all but so many bytes.
func (h *hold) shrink(to int64) {
	if h.taken > to {
		h.budget.Release(h.taken - to)
		h.taken = to
	}
}

func (h *hold) release() { h.shrink(0) }
