package quota

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var start = time.Unix(1763500000, 0)

// Whatever is asked for and whenever, no more is granted than came in, a bucket
// holds a second at most and owes ten at most, and waiting as long as it says is
// enough.
func TestBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Int64Range(1, 1<<40).Draw(t, "rate")
		now := start
		bucket := NewBucket(rate, now)
		var taken float64 // granted and charged, less what was forgiven
		slack := 1 + float64(rate)*1e-6
		t.Repeat(map[string]func(*rapid.T){
			"pass": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.Int64Range(-int64(time.Second), int64(20*time.Second)).Draw(t, "time")))
			},
			"take": func(t *rapid.T) {
				want := rapid.Int64Range(0, 2*rate).Draw(t, "want")
				needed := rapid.Int64Range(0, want).Draw(t, "needed")
				got := bucket.Take(want, needed, now)
				require.GreaterOrEqual(t, got, int64(0))
				require.LessOrEqual(t, got, want)
				require.LessOrEqual(t, got, rate)
				if got < needed {
					require.Zero(t, got, "all that is needed, or nothing")
				}
				taken += float64(got)
			},
			"charge": func(t *rapid.T) {
				bytes := rapid.Int64Range(0, 20*rate).Draw(t, "bytes")
				before := bucket.balanceAt(now)
				bucket.Charge(bytes, now)
				taken += before - bucket.balance
			},
			"wait": func(t *rapid.T) {
				bytes := rapid.Int64Range(1, rate).Draw(t, "bytes")
				wait := bucket.Wait(bytes, now)
				require.GreaterOrEqual(t, wait, time.Duration(0))
				require.LessOrEqual(t, wait, (debtSeconds+1)*time.Second+time.Millisecond)
				if wait > 0 && now.Before(bucket.at) {
					now = bucket.at
				}
				now = now.Add(wait)
				require.Equal(t, bytes, bucket.Take(bytes, bytes, now))
				taken += float64(bytes)
			},
			"": func(t *rapid.T) {
				balance := bucket.balanceAt(now)
				require.LessOrEqual(t, balance, bucket.rate)
				require.GreaterOrEqual(t, balance, -debtSeconds*bucket.rate-slack)
				came := bucket.at.Sub(start).Seconds()*bucket.rate + bucket.rate
				require.LessOrEqual(t, taken, came+max(0, -balance)+slack, "no more goes out than comes in and is owed")
			},
		})
	})
}

func (b *Bucket) balanceAt(now time.Time) float64 {
	b.fill(now)
	return b.balance
}

func TestBudgets(t *testing.T) {
	now := start
	budgets := NewBudgets(func() time.Time { return now })
	rates := Rates{Produce: 1000, Consume: 100}

	require.Equal(t, Grant{Produce: 5, Consume: 6}, budgets.Take("free", Rates{}, Demand{Produce: 5, Needed: 5, Consume: 6, Consumed: 1 << 40}))

	require.Equal(t, Grant{Produce: 600}, budgets.Take("k", rates, Demand{Produce: 600, Needed: 600}))
	require.Equal(t, Grant{RetryAfter: 100 * time.Millisecond}, budgets.Take("k", rates, Demand{Produce: 600, Needed: 500}))
	now = now.Add(100 * time.Millisecond)
	require.Equal(t, Grant{Produce: 500}, budgets.Take("k", rates, Demand{Produce: 600, Needed: 500}))

	// The other direction has its own, and goes into debt: 100 less 650 is 5.5
	// seconds of it and one byte more.
	require.Equal(t, Grant{RetryAfter: 5510 * time.Millisecond}, budgets.Take("k", rates, Demand{Consume: 50, Consumed: 650}))
	now = now.Add(5510 * time.Millisecond)
	require.Equal(t, Grant{Consume: 1}, budgets.Take("k", rates, Demand{Consume: 50}))
	// Ten seconds of debt, never more.
	require.Equal(t, Grant{RetryAfter: 10010 * time.Millisecond}, budgets.Take("k", rates, Demand{Consume: 1, Consumed: 1 << 40}))

	budgets.Forget("k")
	require.Equal(t, Grant{Produce: 1000, Consume: 100}, budgets.Take("k", rates, Demand{Produce: 5000, Needed: 1, Consume: 5000}))
}
