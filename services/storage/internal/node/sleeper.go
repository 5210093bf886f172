package node

import "time"

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

// ownerSleep returns when so many proposals wait, or a task does, and false when
// neither has come to be for some time.
func (p *Partition) ownerSleep(until int, patience time.Duration) bool {
	s := p.node.sleepers.Get().(*sleeper)
	defer p.node.sleepers.Put(s)
	p.queue.Lock()
	if p.queue.len() >= until || len(p.queue.tasks) > 0 {
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
		<-s.woken // whoever took it is about to
	}
	return late
}

// wakeLocked returns who is to be woken by the caller, once it has unlocked; nil for
// nobody.
func (p *Partition) wakeLocked() *sleeper {
	s := p.queue.sleeper
	if s == nil || p.queue.len() < p.queue.wakeAt && len(p.queue.tasks) == 0 {
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
