// Package backoff spaces out attempts: each wait is longer than the one before,
// up to a limit, with jitter so that many callers do not come back at once.
package backoff

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Policy says how waits grow.
type Policy struct {
	// Initial is the first wait; 0 is 50 ms.
	Initial time.Duration
	// Max limits every wait; 0 is 5 s.
	Max time.Duration
}

// jitter is the part of a wait that is random: 0.5 spreads a wait of one second
// over 0.5 to 1.5 s.
const jitter = 0.5

// Backoff is the state of one sequence of attempts. It is not safe for use by
// several goroutines.
type Backoff struct {
	// max limits waits after jitter; the library limits them before.
	max   time.Duration
	waits *backoff.ExponentialBackOff
}

// New returns a sequence that has not waited yet.
func New(p Policy) *Backoff {
	if p.Initial == 0 {
		p.Initial = 50 * time.Millisecond
	}
	if p.Max == 0 {
		p.Max = 5 * time.Second
	}
	waits := &backoff.ExponentialBackOff{
		InitialInterval:     min(p.Initial, p.Max),
		MaxInterval:         p.Max,
		Multiplier:          2,
		RandomizationFactor: jitter,
	}
	waits.Reset()
	return &Backoff{max: p.Max, waits: waits}
}

// Next returns how long to wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	return min(b.waits.NextBackOff(), b.max)
}

// Reset starts over; call it after a success.
func (b *Backoff) Reset() {
	b.waits.Reset()
}

// Wait waits for Next. It returns early, with the context's error, when ctx
// ends.
func (b *Backoff) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := time.NewTimer(b.Next())
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
