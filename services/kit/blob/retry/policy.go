// Package retry tries operations of object storage again that may succeed later.
package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/blob"
)

// Policy says what is tried again, how often, and how long one try may take. A
// zero duration or number is the default that its field names.
type Policy struct {
	// Temporary says whether an operation that failed so may succeed later. It is
	// not asked about a try that ran out of its time, which may. Nil: never.
	Temporary func(error) bool
	// Tries is how often an operation is tried; 0 is 5.
	Tries int
	// Backoff says how long to wait in between.
	Backoff backoff.Policy
	// Latency is what every try may take, 0 is 30 s; and BytesPerSecond, 0 is 256
	// KiB, the least speed, for which it has more time. Slower is taken for dead.
	Latency        time.Duration
	BytesPerSecond int64
}

const (
	defaultTries          = 5
	defaultLatency        = 30 * time.Second
	defaultBytesPerSecond = 256 << 10
)

// exhausted is an operation that was tried as often as it may be. Whoever wraps
// one policy in another does not want their tries multiplied.
type exhausted struct {
	tries int
	err   error
}

func (e *exhausted) Error() string { return fmt.Sprintf("tried %d times: %v", e.tries, e.err) }

func (e *exhausted) Unwrap() error { return e.err }

// slow is a try that ran out of its time.
type slow struct {
	limit time.Duration
	err   error
}

func (e *slow) Error() string {
	return fmt.Sprintf("no end after %s: %v", e.limit.Round(time.Millisecond), e.err)
}

func (e *slow) Unwrap() error { return e.err }

// Timeout is how long one try that moves size bytes may take.
func (p Policy) Timeout(size int64) time.Duration {
	if p.Latency == 0 {
		p.Latency = defaultLatency
	}
	if p.BytesPerSecond == 0 {
		p.BytesPerSecond = defaultBytesPerSecond
	}
	return p.Latency + time.Duration(float64(size)/float64(p.BytesPerSecond)*float64(time.Second))
}

// Do tries an operation that moves size bytes until it succeeds, or fails for
// good, or ctx ends. The context that try is given ends with its time.
func (p Policy) Do(ctx context.Context, size int64, try func(ctx context.Context) error) error {
	limit := p.Timeout(size)
	return p.repeat(ctx, func() error {
		within, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err := try(within)
		if err != nil && ctx.Err() == nil && within.Err() != nil {
			return &slow{limit, err}
		}
		return err
	})
}

func (p Policy) repeat(ctx context.Context, try func() error) error {
	if p.Tries == 0 {
		p.Tries = defaultTries
	}
	wait := backoff.New(p.Backoff)
	for tries := 1; ; tries++ {
		err := try()
		if err == nil || ctx.Err() != nil || !p.again(err) {
			return err
		}
		if tries == p.Tries {
			if tries == 1 {
				return err
			}
			return &exhausted{tries, err}
		}
		if wait.Wait(ctx) != nil {
			return err
		}
	}
}

func (p Policy) again(err error) bool {
	if _, over := errors.AsType[*exhausted](err); over || errors.Is(err, io.EOF) || errors.Is(err, blob.ErrNotFound) {
		return false
	}
	if _, ok := errors.AsType[*slow](err); ok {
		return true
	}
	return p.Temporary != nil && p.Temporary(err)
}
