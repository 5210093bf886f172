package binary

import (
	"context"
	"math/rand/v2"
	"time"
)

// A backoff spaces out attempts: each wait is about twice the last, up to a
// limit, and half of it is chance, so that many clients do not come at once.
type backoff struct{ next time.Duration }

const (
	firstWait = 50 * time.Millisecond
	maxWait   = 2 * time.Second
)

func newBackoff() *backoff { return &backoff{firstWait} }

func (b *backoff) wait(ctx context.Context) error {
	d := b.next/2 + rand.N(b.next)
	b.next = min(2*b.next, maxWait)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
