// Package purse is what a gateway may still spend of a key's budget, of which the
// registry has handed out a little ahead.
package purse

import "time"

// Keep is how long bytes that were handed out may be spent. A budget holds one
// second of traffic, so what is older would have been lost there too.
const Keep = time.Second

// A Purse is one direction of one key. The zero value is empty. It has no clock.
type Purse struct {
	// Below 0 what was used already and the registry does not know of yet.
	bytes int64
	// When what is there is lost; of several grants the earliest.
	until time.Time
}

// Bytes is what is there, or owed.
func (p *Purse) Bytes(now time.Time) int64 {
	if p.bytes > 0 && !now.Before(p.until) {
		p.bytes = 0
	}
	return p.bytes
}

// Put adds what was granted.
func (p *Purse) Put(bytes int64, now time.Time) {
	if p.Bytes(now) <= 0 {
		p.until = now.Add(Keep)
	}
	p.bytes += bytes
}

// Spend takes all of it, or nothing and says no.
func (p *Purse) Spend(bytes int64, now time.Time) bool {
	if p.Bytes(now) < bytes {
		return false
	}
	p.bytes -= bytes
	return true
}

// Take empties the purse, if there is something in it, and returns what was.
func (p *Purse) Take(now time.Time) Purse {
	if p.Bytes(now) <= 0 {
		return Purse{}
	}
	taken := *p
	*p = Purse{}
	return taken
}

// Return puts back what Take took.
func (p *Purse) Return(taken Purse, now time.Time) {
	if taken.Bytes(now) <= 0 {
		return
	}
	if p.Bytes(now) <= 0 || taken.until.Before(p.until) {
		p.until = taken.until
	}
	p.bytes += taken.bytes
}

// Charge takes what was used, into debt if need be, and returns the debt.
func (p *Purse) Charge(bytes int64, now time.Time) (debt int64) {
	p.bytes = p.Bytes(now) - bytes
	return max(0, -p.bytes)
}

// Settle takes off a debt that the registry knows of now.
func (p *Purse) Settle(debt int64) { p.bytes += debt }
