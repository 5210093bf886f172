package node

import (
	"runtime"
	"time"
)

const (
	// gatherLooks is how often the owner looks for more while none comes: some
	// microseconds, about what a caller in this process takes to come back. Another
	// core may be at it; a single yield gives the owner back at once where that core
	// has nothing else to do.
	gatherLooks = 64
	// gatherMany is from how many awaited callers on the owner sleeps until they are
	// there, or some of them, instead of looking: the core that he looks from would
	// run them. Fewer are there sooner than he is awake.
	gatherMany = 16
	// gatherParts is in how many parts many callers are written. A sync is for all,
	// and who writes before the last has come is ready for it sooner.
	gatherParts = 2
	// gatherEach is how long the owner sleeps at most, for each who is awaited: more
	// than a caller of this process needs.
	gatherEach = 10 * time.Microsecond
	// gatherTrust is how many groups the owner does without sleep after one whose
	// callers did not come.
	gatherTrust = 64
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

// synced notes how long it took to write and sync a group.
func (p *Partition) synced(began time.Time) {
	p.queue.Lock()
	defer p.queue.Unlock()
	p.queue.patience = time.Since(began)
}

// ownerGather lets those who were answered and are about to come back run before what waits is written, or
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
		waiting, callers, patience := p.queue.len(), p.queue.callers, p.queue.patience
		tasks, landed, flying := len(p.queue.tasks) > 0, p.queue.landed, p.queue.flying
		p.queue.Unlock()
		there := waiting + p.unsynced.proposals
		target := there + max(0, callers-int(p.outstanding.Load()))
		if flying == 0 && target >= 2*p.node.options.FlyFrom {
			target /= 2
		}
		part := max(gatherMany, target/gatherParts)
		switch {
		case tasks || there >= target:
			p.distrust = max(0, p.distrust-1)
			return true
		case landed, waiting >= part && flying < maxFlying:
			return false
		}
		if began.IsZero() {
			if began = p.unsynced.began; began.IsZero() {
				began = time.Now()
			}
		} else if time.Since(began) > patience {
			p.ownerGiveUp()
			return true
		}
		if missing := target - there; missing >= gatherMany && p.distrust == 0 {
			if !p.ownerSleep(min(part, waiting+missing), min(patience, time.Duration(missing)*gatherEach)) {
				p.distrust = gatherTrust
			}
			continue
		}
		looks := gatherLooks
		if target == 1 {
			looks = 1 // a sole caller comes back on this core, or from afar
		}
		if waiting > before {
			before, idle = waiting, 0
		} else if idle++; idle >= looks {
			p.ownerGiveUp()
			return true
		}
		runtime.Gosched()
	}
}

// ownerGiveUp awaits nobody any more.
func (p *Partition) ownerGiveUp() {
	p.distrust = max(0, p.distrust-1)
	p.queue.Lock()
	defer p.queue.Unlock()
	p.queue.callers = int(p.outstanding.Load())
}

// sleeper wakes an owner that waits for callers.
type sleeper struct {
	woken chan struct{} // capacity 1
	timer *time.Timer
}

func newSleeper() any {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &sleeper{make(chan struct{}, 1), timer}
}

// ownerSleep returns when so many proposals wait, or there is something else to do,
// and false when neither has come to be for some time.
func (p *Partition) ownerSleep(until int, patience time.Duration) bool {
	s := p.node.sleepers.Get().(*sleeper)
	defer p.node.sleepers.Put(s)
	p.queue.Lock()
	if p.queue.len() >= until || len(p.queue.tasks) > 0 || p.queue.landed {
		p.queue.Unlock()
		return true
	}
	p.queue.sleeper, p.queue.wakeAt = s, until
	p.queue.Unlock()
	s.timer.Reset(patience)
	defer s.timer.Stop()
	select {
	case <-s.woken:
		return true
	case <-s.timer.C:
	}
	p.queue.Lock()
	late := p.queue.sleeper != s
	p.queue.sleeper = nil
	p.queue.Unlock()
	if late {
		<-s.woken
	}
	return late
}

// wakeLocked returns who is to be woken by the caller, once it has unlocked; nil for
// nobody.
func (p *Partition) wakeLocked() *sleeper {
	s := p.queue.sleeper
	if s == nil || p.queue.len() < p.queue.wakeAt && len(p.queue.tasks) == 0 && !p.queue.landed {
		return nil
	}
	p.queue.sleeper = nil
	return s
}

func (s *sleeper) wake() {
	if s != nil {
		s.woken <- struct{}{}
	}
}
