package node

import "sync"

// pool runs partitions that have work on at most limit goroutines, which start
// with the work and end without it.
type pool struct {
	limit int

	mu struct {
		sync.Mutex
		running int
		// urgent comes before ready: what gives resources back.
		urgent, ready []*Partition
	}
	workers sync.WaitGroup
}

// push hands a scheduled partition to a worker. urgent puts it before others.
func (w *pool) push(p *Partition, urgent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.running < w.limit {
		w.mu.running++
		w.workers.Go(func() { w.work(p) })
		return
	}
	if urgent {
		w.mu.urgent = append(w.mu.urgent, p)
	} else {
		w.mu.ready = append(w.mu.ready, p)
	}
}

func (w *pool) work(p *Partition) {
	for p != nil {
		if more := p.serveGroup(); !more {
			p = w.next()
			continue
		}
		p = w.rotate(p)
	}
}

// next takes a partition that waits, or lets the worker end.
func (w *pool) next() *Partition {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.popLocked(); p != nil {
		return p
	}
	w.mu.running--
	return nil
}

// rotate gives the worker of a partition that still has work to one that waits,
// if any does, so that busy partitions never starve others.
func (w *pool) rotate(p *Partition) *Partition {
	w.mu.Lock()
	defer w.mu.Unlock()
	other := w.popLocked()
	if other == nil {
		return p
	}
	w.mu.ready = append(w.mu.ready, p)
	return other
}

func (w *pool) popLocked() *Partition {
	for _, queue := range []*[]*Partition{&w.mu.urgent, &w.mu.ready} {
		if len(*queue) == 0 {
			continue
		}
		p := (*queue)[0]
		(*queue)[0] = nil
		*queue = (*queue)[1:]
		if len(*queue) == 0 {
			*queue = nil
		}
		return p
	}
	return nil
}

// wait returns when no worker runs.
func (w *pool) wait() { w.workers.Wait() }
