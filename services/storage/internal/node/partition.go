package node

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// Voter is a replica that votes, and the node that holds it.
type Voter struct {
	ID   uint64
	Node string
}

// Partition is a replica with its queue: what the node shows of a partition.
// Its methods may be called by any goroutine, those named owner… by its owner
// alone.
type Partition struct {
	node   *Node
	topic  *topic
	key    replica.Key
	id     uint64
	voters []Voter

	queue struct {
		sync.Mutex
		*group // nil when there is none
		tasks  []task
		// scheduled is true from the push to the pool until the owner leaves.
		scheduled bool
		// callers is how many the owner takes to be about: the most proposals that were
		// outstanding at once, until somebody did not come back; see ownerGather.
		callers int
		// sleeper is an owner that waits for the queue to have wakeAt proposals, or for
		// a task; nil when there is none.
		sleeper *sleeper
		wakeAt  int
		// gone answers everything that comes, once the partition is removed or
		// the node stops.
		gone error
	}

	watchers watchers

	// written tells that the partition has a folder, or is about to.
	written atomic.Bool
	// open is the replica, nil until it is opened. Set by the owner.
	open atomic.Pointer[replica.Replica]
	// failure is why the replica serves nothing, nil while it is sound. Set by
	// the owner, or by end when there is none.
	failure atomic.Pointer[failure]
	// touched is when an append last came, in Unix nanoseconds.
	touched atomic.Int64
	// burying tells that a timer waits to delete trimmed files.
	burying atomic.Bool
	// cleaning is held while segments are written anew.
	cleaning sync.Mutex
	// tiering is the traffic with cold storage.
	tiering tiering
	// counts are what upkeep has done since the process started.
	counts counts
	// reported is the leadership that was last reported. For the owner.
	reported report
	// outstanding counts the proposals that are not answered.
	outstanding atomic.Int64
	// patience is how long the owner waits for callers to come back; distrust is for how
	// many groups it stays awake while it does. For the owner.
	patience time.Duration
	distrust int
}

// task is work for the owner. err is why the replica could not be opened.
type task struct {
	run func(r *replica.Replica, err error)
	// creates tells that an unwritten partition gets its folder for it.
	creates bool
	// lost is called after a panic in run, for whoever waits for it and was not
	// answered. Nil where nobody does.
	lost func(err error)
}

// failure is why a replica serves nothing.
type failure struct {
	err error
	// retry is when it is opened anew; zero is never.
	retry time.Time
	// ended tells that nothing is wrong with it: it was removed, or the node
	// stops.
	ended bool
}

// Key names the partition.
func (p *Partition) Key() replica.Key { return p.key }

// TopicName is for logs and metrics.
func (p *Partition) TopicName() string { return p.topic.name }

// Internal tells that the partition is the system's own.
func (p *Partition) Internal() bool { return p.topic.internal }

// Config returns the topic's resolved config. It must not be changed.
func (p *Partition) Config() *Config { return p.topic.config.Load() }

// propose queues a proposal of some bytes. Its Done is called in any case.
func (p *Partition) propose(proposal *replica.Proposal, size int) {
	outstanding := int(p.outstanding.Add(1))
	p.queue.Lock()
	p.queue.callers = max(p.queue.callers, outstanding)
	if gone := p.queue.gone; gone != nil {
		p.queue.Unlock()
		proposal.Done(replica.Result{Err: gone})
		return
	}
	if p.queue.group == nil {
		p.queue.group = groups.Get().(*group)
	}
	p.queue.add(proposal, size)
	push, sleeper := p.scheduleLocked(), p.wakeLocked()
	p.queue.Unlock()
	sleeper.wake()
	if push {
		p.node.pool.push(p, false)
	}
}

// do queues a task. Its run is called in any case.
func (p *Partition) do(t task, urgent bool) {
	p.queue.Lock()
	if gone := p.queue.gone; gone != nil {
		p.queue.Unlock()
		t.run(nil, gone)
		return
	}
	p.queue.tasks = append(p.queue.tasks, t)
	push, sleeper := p.scheduleLocked(), p.wakeLocked()
	p.queue.Unlock()
	sleeper.wake()
	if push {
		p.node.pool.push(p, urgent)
	}
}

func (p *Partition) scheduleLocked() (push bool) {
	push = !p.queue.scheduled
	p.queue.scheduled = true
	return push
}

// ownerElect makes a sole replica lead. A campaign that is refused leaves it to
// refuse the proposals; a replica that fails in it is out of service.
func (p *Partition) ownerElect(r *replica.Replica) error {
	if view := r.View(); !view.Sole || view.Serves {
		return nil
	}
	if err := errors.Join(r.Campaign(), r.Run()); err != nil {
		p.node.options.Logger.Error("election failed", "topic", p.topic.name, "partition", p.key.Partition, "error", err)
	}
	if err := r.Err(); err != nil {
		return p.ownerFail(r, err)
	}
	return nil
}

// ownerAfter notes what has changed: a replica that failed is out of service, and
// who leads is reported.
func (p *Partition) ownerAfter() {
	if r := p.open.Load(); r != nil && r.Err() != nil {
		_ = p.ownerFail(r, r.Err())
	}
	p.ownerReport()
}

// end ends the partition: what comes, and what waits behind the owner's current
// group, is answered with err. closing is given the replica, if there is an open
// one. The channel is closed after that; then the partition has no owner that
// would open another.
func (p *Partition) end(err error, closing func(*replica.Replica)) <-chan struct{} {
	done := make(chan struct{})
	p.tiering.end(err)
	finish := func(r *replica.Replica, _ error) {
		defer close(done)
		p.node.awake.remove(p)
		if r != nil {
			closing(r)
		}
		p.open.Store(nil)
		p.failure.Store(&failure{err: err, ended: true})
		p.watchers.wake()
	}
	p.queue.Lock()
	if p.queue.gone != nil {
		p.queue.Unlock()
		close(done)
		return done
	}
	p.queue.gone = err
	if !p.queue.scheduled && p.open.Load() == nil {
		// Nobody owns it, and nobody will: there is nothing to close.
		p.queue.Unlock()
		finish(nil, nil)
		return done
	}
	p.queue.tasks = append(p.queue.tasks, task{run: finish})
	push, sleeper := p.scheduleLocked(), p.wakeLocked()
	p.queue.Unlock()
	sleeper.wake()
	if push {
		p.node.pool.push(p, false)
	}
	return done
}

// await runs fn as the owner and returns its error, or why the replica could not
// be opened. It waits for the owner, so that what fn captured is free after.
func (p *Partition) await(creates bool, fn func(*replica.Replica) error) error {
	done := make(chan error, 1)
	p.do(task{creates: creates, lost: answerOnce(done), run: func(r *replica.Replica, err error) {
		if err == nil && r != nil {
			err = fn(r)
		}
		done <- err
	}}, false)
	return <-done
}

func (p *Partition) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s/%d: %w", doing, p.topic.name, p.key.Partition, err)
}
