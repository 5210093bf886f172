package node

import "sync"

// Waiter is told when any of the partitions that it watches has something new to
// read. It belongs to one reader.
type Waiter struct {
	// C receives after a commit on a watched partition. Several commits may
	// come as one.
	C chan struct{}
	// watched are the partitions to leave when the reader is done.
	watched []*Partition
}

// NewWaiter makes a waiter that watches nothing yet.
func NewWaiter() *Waiter { return &Waiter{C: make(chan struct{}, 1)} }

// Watch begins to watch a partition. What is committed before it returns may go
// unnoticed, so look after watching, not before.
func (w *Waiter) Watch(p *Partition) {
	w.watched = append(w.watched, p)
	p.watchers.add(w)
}

// Close ends all watching.
func (w *Waiter) Close() {
	for _, p := range w.watched {
		p.watchers.remove(w)
	}
	w.watched = nil
}

// watchers are the waiters of one partition.
type watchers struct {
	mu  sync.Mutex
	set map[*Waiter]struct{}
}

func (s *watchers) add(w *Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = map[*Waiter]struct{}{}
	}
	s.set[w] = struct{}{}
}

func (s *watchers) remove(w *Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, w)
	if len(s.set) == 0 {
		s.set = nil
	}
}

// wake tells all waiters. It never blocks.
func (s *watchers) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.set {
		select {
		case w.C <- struct{}{}:
		default:
		}
	}
}
