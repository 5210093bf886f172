// Package quota is how many bytes a key may still write and read.
package quota

import (
	"math"
	"time"
)

// debtSeconds is how far into debt a budget can go. What is charged beyond it is
// forgiven, so that one large read shuts nobody out for long.
const debtSeconds = 10

// A Bucket is one budget: it fills by rate bytes a second and holds one second of
// it. It has no clock; now must not be the zero time, and an earlier one than
// before counts as that.
//
//	-debtSeconds*rate <= balance <= rate
type Bucket struct {
	rate    float64
	balance float64
	// When the balance was right.
	at time.Time
}

// NewBucket returns a full bucket.
func NewBucket(rate int64, now time.Time) *Bucket {
	return &Bucket{rate: float64(rate), balance: float64(rate), at: now}
}

// Rate is how many bytes a second come in.
func (b *Bucket) Rate() int64 { return int64(b.rate) }

// Take takes up to want bytes and returns how many, which is none when fewer
// than needed are there.
func (b *Bucket) Take(want, needed int64, now time.Time) int64 {
	b.fill(now)
	// Whole bytes. What comes in within a nanosecond makes up for what the sums
	// have lost.
	have := int64(math.Floor(max(min(b.balance+b.rate/float64(time.Second), b.rate), 0)))
	if have < needed {
		return 0
	}
	granted := min(want, have)
	b.balance -= float64(granted)
	return granted
}

// Charge takes bytes that were used already, into debt if need be.
func (b *Bucket) Charge(bytes int64, now time.Time) {
	b.fill(now)
	b.balance = max(b.balance-float64(bytes), -debtSeconds*b.rate)
}

// Wait returns how long it takes until so many bytes are there, if nobody else
// takes any. More than a second's worth never is.
func (b *Bucket) Wait(bytes int64, now time.Time) time.Duration {
	b.fill(now)
	missing := float64(bytes) - b.balance
	if missing <= 0 {
		return 0
	}
	return time.Duration(math.Ceil(missing / b.rate * float64(time.Second)))
}

func (b *Bucket) fill(now time.Time) {
	if elapsed := now.Sub(b.at); elapsed > 0 {
		b.balance = min(b.rate, b.balance+elapsed.Seconds()*b.rate)
		b.at = now
	}
}
