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
	// there instead of looking: the core that it looks from would run them. Fewer are
	// there sooner than it is awake.
	gatherMany = 16
	// gatherEach is how long the owner sleeps at most, for each who is awaited: more
	// than a caller of this process needs.
	gatherEach = 10 * time.Microsecond
	// gatherTrust is how many groups the owner does without sleep after one whose
	// callers did not come.
	gatherTrust = 64
)

// ownerGather lets those who were answered and are about to come back run before the
// next group is taken. Who waits for each append comes back with another at once;
// without this the first few of them are a group of their own, or all that came
// during the sync, and the others wait for two syncs instead of one. It goes on while
// more come, up to all who are about, and for no longer than the last group took:
// then a sync is cheaper.
func (p *Partition) ownerGather() {
	var began time.Time
	for before, idle := -1, 0; ; {
		p.queue.Lock()
		waiting, callers, tasks := p.queue.len(), p.queue.callers, len(p.queue.tasks) > 0
		p.queue.Unlock()
		missing := callers - int(p.outstanding.Load())
		if tasks || missing <= 0 {
			p.distrust = max(0, p.distrust-1)
			return
		}
		if began.IsZero() {
			began = time.Now()
		} else if time.Since(began) > p.patience {
			p.ownerGiveUp()
			return
		}
		if missing >= gatherMany && p.distrust == 0 {
			if !p.ownerSleep(waiting+missing, min(p.patience, time.Duration(missing)*gatherEach)) {
				p.distrust = gatherTrust
			}
			continue
		}
		looks := gatherLooks
		if callers == 1 {
			looks = 1 // a sole caller comes back on this core, or from afar
		}
		if waiting > before {
			before, idle = waiting, 0
		} else if idle++; idle >= looks {
			p.ownerGiveUp()
			return
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
