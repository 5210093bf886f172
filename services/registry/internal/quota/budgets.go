package quota

import (
	"sync"
	"time"
)

// Rates are the quotas of a key in bytes a second; 0 is without limit.
type Rates struct{ Produce, Consume int64 }

// Demand is what a gateway wants of a key's budgets.
type Demand struct {
	// Produce is how many bytes to take, and Needed without how many of them
	// none is of use.
	Produce, Needed int64
	Consume         int64
	// Consumed are bytes that were read already.
	Consumed int64
}

// Grant is what it gets.
type Grant struct {
	Produce, Consume int64
	// When there is more of what was wanted and not granted; 0 if nothing was.
	RetryAfter time.Duration
}

// Budgets are the buckets of all keys. A key that nobody asks about has none;
// one that begins, here, begins full.
type Budgets struct {
	now func() time.Time

	mu struct {
		sync.Mutex
		byKey map[string]*budget
	}
}

// budget is the two directions of one key; nil is without limit.
type budget struct {
	rates            Rates
	produce, consume *Bucket
}

// NewBudgets returns budgets of which none has been used.
func NewBudgets(now func() time.Time) *Budgets {
	b := &Budgets{now: now}
	b.mu.byKey = make(map[string]*budget)
	return b
}

// Take takes from the budgets of a key.
func (b *Budgets) Take(key string, rates Rates, d Demand) Grant {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.mu.byKey[key]
	if own == nil || own.rates != rates {
		own = &budget{rates: rates}
		if rates.Produce > 0 {
			own.produce = NewBucket(rates.Produce, now)
		}
		if rates.Consume > 0 {
			own.consume = NewBucket(rates.Consume, now)
		}
		b.mu.byKey[key] = own
	}
	g := Grant{Produce: d.Produce, Consume: d.Consume}
	if own.produce != nil && d.Produce > 0 {
		if g.Produce = own.produce.Take(d.Produce, d.Needed, now); g.Produce == 0 {
			g.RetryAfter = own.produce.Wait(max(d.Needed, 1), now)
		}
	}
	if own.consume != nil {
		if d.Consumed > 0 {
			own.consume.Charge(d.Consumed, now)
		}
		if g.Consume = own.consume.Take(d.Consume, 1, now); g.Consume == 0 && d.Consume > 0 {
			g.RetryAfter = max(g.RetryAfter, own.consume.Wait(1, now))
		}
	}
	return g
}

// Forget drops the budgets of a key that is no more.
func (b *Budgets) Forget(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.byKey, key)
}
