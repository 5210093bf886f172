package node

import (
	"context"
	"sync"
	"time"

	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// victimSample is how many awake partitions are looked at to find one that has
// been idle for long.
const victimSample = 8

// awakeSet is the partitions whose logs hold file handles. It puts them to sleep
// when they have been idle for a while, or when there are too many.
type awakeSet struct {
	limit int
	after time.Duration
	now   func() time.Time

	mu struct {
		sync.Mutex
		set map[*Partition]struct{}
	}
	// filled is told when the set gets its first member.
	filled chan struct{}
}

func newAwakeSet(limit int, after time.Duration, now func() time.Time) *awakeSet {
	s := &awakeSet{limit: limit, after: after, now: now, filled: make(chan struct{}, 1)}
	s.mu.set = map[*Partition]struct{}{}
	return s
}

// touch notes an append; called by the partition's owner.
func (s *awakeSet) touch(p *Partition) {
	p.touched.Store(s.now().UnixNano())
	s.mu.Lock()
	_, member := s.mu.set[p]
	s.mu.set[p] = struct{}{}
	var victim *Partition
	if !member && len(s.mu.set) > s.limit {
		victim = s.victimLocked(p)
	}
	first := len(s.mu.set) == 1
	s.mu.Unlock()
	if first {
		select {
		case s.filled <- struct{}{}:
		default:
		}
	}
	if victim != nil {
		victim.sleep()
	}
}

// victimLocked takes the longest idle of a few members out of the set.
func (s *awakeSet) victimLocked(except *Partition) *Partition {
	var victim *Partition
	looked := 0
	for p := range s.mu.set {
		if p == except {
			continue
		}
		if victim == nil || p.touched.Load() < victim.touched.Load() {
			victim = p
		}
		if looked++; looked == victimSample {
			break
		}
	}
	if victim != nil {
		delete(s.mu.set, victim)
	}
	return victim
}

func (s *awakeSet) remove(p *Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.set, p)
}

// run puts idle partitions to sleep until the context ends. It does nothing at
// all while none is awake.
func (s *awakeSet) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.filled:
		}
		ticker := time.NewTicker(max(s.after/2, time.Millisecond))
		for more := true; more; {
			select {
			case <-ctx.Done():
				ticker.Stop()
				return
			case <-ticker.C:
				more = s.sweep()
			}
		}
		ticker.Stop()
	}
}

// sweep puts to sleep what is idle and tells whether anything is left awake.
func (s *awakeSet) sweep() (more bool) {
	deadline := s.now().Add(-s.after).UnixNano()
	var idle []*Partition
	s.mu.Lock()
	for p := range s.mu.set {
		if p.touched.Load() <= deadline {
			idle = append(idle, p)
			delete(s.mu.set, p)
		}
	}
	more = len(s.mu.set) > 0
	s.mu.Unlock()
	for _, p := range idle {
		p.sleep()
	}
	return more
}

// sleep has the owner put the log to sleep. An append that comes first keeps it
// awake: it has touched the partition again.
func (p *Partition) sleep() {
	asked := p.node.options.Now().UnixNano()
	p.do(task{run: func(r *replica.Replica, err error) {
		if err != nil || r == nil || p.touched.Load() > asked || !r.Idle() {
			return
		}
		// A failure is noted by the round that this task is part of.
		_ = r.Sleep()
	}}, true)
}
