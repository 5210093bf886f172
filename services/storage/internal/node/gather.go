package node

import (
	"runtime"
	"time"
)

const (
	// gatherLooks is how often the owner looks for more while none comes: some
	// microseconds, about what a caller in this process takes to come back. Another
	// core may be at it; a single yield gives the owner back at once where that core
	// has nothing else to do. With 8 callers 7.7 share a sync instead of 5.6, a third
	// more appends. (To sleep until they are there instead is worse: 64 callers take
	// as long, and partitions that share two cores twice as long.)
	gatherLooks = 64
	// gatherPart is what part of those that would fly is written while others are
	// still awaited. A sync is for all, and who wrote before the last came is ready
	// for it sooner.
	gatherPart = 6
)

// unsynced is what the owner has written, and whose sync nobody runs.
type unsynced struct {
	proposals, bytes int
	began            time.Time // of the first write
}

func (u *unsynced) add(began time.Time, g *group) {
	if u.proposals == 0 {
		u.began = began
	}
	u.proposals += g.len()
	u.bytes += g.bytes()
}

// answered notes how many callers were answered: most come back with the next
// append at once.
func (p *Partition) answered(n int) {
	if n == 0 {
		return
	}
	p.queue.Lock()
	defer p.queue.Unlock()
	p.queue.expected = max(p.queue.expected, p.unsynced.proposals+p.queue.len()) + n
}

// synced notes how long it took to write and sync so many proposals.
func (p *Partition) synced(began time.Time, n int) {
	p.queue.Lock()
	defer p.queue.Unlock()
	p.queue.patience = time.Since(began)
}

// ownerGather lets those who were answered run before what waits is written, or
// synced: enough tells which. Who waits for each append comes back with another at
// once; without this the first few of them are a group of their own, or all that
// came during the sync, and the others wait for two syncs instead of one. It goes
// on while more come, up to all who were there, and for no longer than the last
// group took: then a sync is cheaper.
//
// So many callers that the half of them may fly become two groups, one of which
// gathers while the other is on its way to the disk.
func (p *Partition) ownerGather() (enough bool) {
	var began time.Time
	for before, idle := -1, 0; ; {
		p.queue.Lock()
		waiting, expected, patience := p.queue.len(), p.queue.expected, p.queue.patience
		interrupted := len(p.queue.tasks) > 0 || p.queue.landed
		flying := p.queue.flying
		p.queue.Unlock()
		target := expected
		if flying == 0 && expected >= 2*p.node.options.FlyFrom {
			target /= 2
		}
		switch {
		case interrupted:
			return false
		case waiting+p.unsynced.proposals >= target:
			p.ownerExpects(expected - waiting - p.unsynced.proposals)
			return true
		case waiting >= max(1, p.node.options.FlyFrom/gatherPart) && flying < maxFlying:
			return false
		}
		looks := gatherLooks
		if expected == 1 {
			looks = 1 // a sole caller comes back on this core, or from afar
		}
		if waiting > before {
			before, idle = waiting, 0
		} else if idle++; idle >= looks {
			p.ownerExpects(0)
			return true
		}
		if began.IsZero() {
			if began = p.unsynced.began; began.IsZero() {
				began = time.Now()
			}
		} else if time.Since(began) > patience {
			p.ownerExpects(0)
			return true
		}
		runtime.Gosched()
	}
}

// ownerExpects notes how many more are expected once those who are there are on
// their way.
func (p *Partition) ownerExpects(n int) {
	p.queue.Lock()
	defer p.queue.Unlock()
	p.queue.expected = max(0, n)
}
