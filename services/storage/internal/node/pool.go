package node

import "sync"

// maxParked is how many workers wait for more work instead of ending: a few for
// the whole node. A new goroutine for each group would grow its stack anew each
// time, which showed as a tenth of an append's CPU.
const maxParked = 4

// pool runs partitions that have work on at most limit goroutines, which start
// with the work and, but for a few, end without it.
type pool struct {
	limit int

	mu struct {
		sync.Mutex
		// running counts workers that have a partition, parked those that wait on
		// hand. running <= limit, parked <= maxParked.
		running, parked int
		// urgent comes before ready: what gives resources back.
		urgent, ready []*Partition
		// ended parks no more workers.
		ended bool
	}
	// hand gives a partition to a parked worker. It has room for every one that
	// can be parked, so a send to a worker that was counted never waits.
	hand    chan *Partition
	workers sync.WaitGroup
}

func newPool(limit int) *pool {
	return &pool{limit: limit, hand: make(chan *Partition, maxParked)}
}

// push hands a scheduled partition to a worker. urgent puts it before others.
func (w *pool) push(p *Partition, urgent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.mu.parked > 0 && w.mu.running < w.limit:
		w.mu.parked--
		w.mu.running++
		w.hand <- p
	case w.mu.running < w.limit:
		w.mu.running++
		w.workers.Go(func() { w.work(p) })
	case urgent:
		w.mu.urgent = append(w.mu.urgent, p)
	default:
		w.mu.ready = append(w.mu.ready, p)
	}
}

func (w *pool) work(p *Partition) {
	for p != nil {
		if more := p.serveRound(); !more {
			p = w.next()
			continue
		}
		p = w.rotate(p)
	}
}

// next takes a partition that waits, or waits for one, or lets the worker end.
func (w *pool) next() *Partition {
	w.mu.Lock()
	if p := w.popLocked(); p != nil {
		w.mu.Unlock()
		return p
	}
	w.mu.running--
	if w.mu.ended || w.mu.parked == maxParked {
		w.mu.Unlock()
		return nil
	}
	w.mu.parked++
	w.mu.Unlock()
	return <-w.hand
}

// end lets the parked workers go and returns when no worker runs.
func (w *pool) end() {
	w.mu.Lock()
	w.mu.ended = true
	parked := w.mu.parked
	w.mu.parked = 0
	w.mu.Unlock()
	for range parked {
		w.hand <- nil
	}
	w.workers.Wait()
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
