package node

import (
	"time"

	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// maxGroupBytes bounds what one write takes from the queue, so that a full queue
// is written in several groups and the first of them is answered early.
const maxGroupBytes = 16 << 20

// take hands the owner its next group, nil for none, which the owner releases.
// With no tasks either the owner has left when it returns.
func (p *Partition) take() (*group, []task) {
	p.queue.Lock()
	defer p.queue.Unlock()
	tasks := p.queue.tasks
	p.queue.tasks = nil
	taken := p.queue.group
	if taken != nil {
		p.queue.group = taken.split(maxGroupBytes)
	}
	if taken == nil && len(tasks) == 0 {
		p.queue.scheduled = false
	}
	return taken, tasks
}

// serveRound does one round of the partition's work as its owner, and tells
// whether it still is.
func (p *Partition) serveRound() (more bool) {
	p.ownerGather()
	taken, tasks := p.take()
	if taken == nil && len(tasks) == 0 {
		return false
	}
	for _, t := range tasks {
		// Each gets the replica as the one before has left it: opened anew, if that has
		// failed. What is appended behind them does not make them such as create.
		r, err := p.ownerOpen(t.creates)
		p.ownerRun(t, r, err)
		p.ownerAfter()
	}
	if taken != nil {
		began := time.Now()
		p.ownerAppend(taken.proposals)
		taken.release()
		p.patience = time.Since(began)
		p.ownerAfter()
	}
	return true
}

// ownerAppend proposes a group. A sole replica that does not lead yet is elected
// on the way.
func (p *Partition) ownerAppend(proposals []*replica.Proposal) {
	left := proposals
	defer p.ownerRecoverGroup(&left)
	r, err := p.ownerOpen(true)
	if err == nil {
		err = p.ownerElect(r)
	}
	if err != nil {
		for _, proposal := range proposals {
			proposal.Done(replica.Result{Err: err})
		}
		return
	}
	p.node.awake.touch(p)
	left = nil // the replica answers them, whatever happens
	if r.Propose(proposals) == nil {
		// The replica keeps its failure, and has answered all that waits.
		_ = r.Run()
	}
}
