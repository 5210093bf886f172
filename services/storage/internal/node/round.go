package node

import (
	"time"

	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// maxGroupBytes bounds what one write takes from the queue, so that a full queue
// is written in several groups and the first of them is answered early.
const maxGroupBytes = 16 << 20

// round is what the owner takes from the queue at once.
type round struct {
	group  *group // nil for none; the owner releases it
	tasks  []task
	landed bool
	lost   error // why a flight landed without a word of the disk
}

// creates tells that an unwritten partition gets its folder for the round.
func (r *round) creates() bool {
	creates := r.group != nil
	for _, t := range r.tasks {
		creates = creates || t.creates
	}
	return creates
}

// take hands the owner its next round. When there is none, and nothing that was
// written is left to be synced, the owner has left when it returns false.
func (p *Partition) take() (r round, ok bool) {
	p.queue.Lock()
	defer p.queue.Unlock()
	r = round{tasks: p.queue.tasks, landed: p.queue.landed, lost: p.queue.lost}
	p.queue.tasks, p.queue.landed, p.queue.lost = nil, false, nil
	if p.queue.group != nil && p.queue.flying < maxFlying {
		r.group = p.queue.group
		p.queue.group = r.group.split(maxGroupBytes)
	}
	if r.group == nil && len(r.tasks) == 0 && !r.landed && p.unsynced.proposals == 0 {
		p.queue.scheduled = false
		return r, false
	}
	return r, true
}

// serveRound does one round of the partition's work as its owner, and tells
// whether it still is.
func (p *Partition) serveRound() (more bool) {
	enough := p.ownerGather()
	next, ok := p.take()
	if !ok {
		return false
	}
	r, err := p.ownerOpen(next.creates())
	if next.landed {
		p.ownerLand(r, next.lost)
	}
	for _, t := range next.tasks {
		p.ownerRun(t, r, err)
	}
	p.ownerAfter()
	if next.group != nil {
		p.ownerAppend(next.group, enough)
		next.group.release()
		p.ownerAfter()
	}
	if !enough || p.unsynced.proposals == 0 {
		return true
	}
	return p.ownerSync()
}

// ownerAppend proposes a group. A sole replica that does not lead yet is elected
// on the way. last tells that the group is to be synced now: that is done here if
// nothing else is to be synced with it, and it is small.
func (p *Partition) ownerAppend(g *group, last bool) {
	left := g.proposals
	defer p.ownerRecoverGroup(&left)
	// Opened before, unless a task has ended it since.
	r, err := p.ownerOpen(true)
	if err == nil {
		err = p.ownerElect(r)
	}
	if err != nil {
		for _, proposal := range g.proposals {
			proposal.Done(replica.Result{Err: err})
		}
		return
	}
	p.node.awake.touch(p)
	began := time.Now()
	left = nil // the replica answers them, whatever happens
	if r.Propose(g.proposals) != nil {
		return // it keeps its failure, and has answered all that waits
	}
	alone := last && !p.flies(g.len(), g.bytes()) && p.unsynced.proposals == 0
	if alone {
		_ = r.Run() // as above
		p.synced(began)
	} else if r.RunAhead() == nil {
		p.unsynced.add(began, g)
	}
}

// ownerSync has all that is written synced, by the owner or while another is it.
// It tells whether it owns the partition still.
func (p *Partition) ownerSync() (owns bool) {
	u := p.unsynced
	p.unsynced = unsynced{}
	r := p.open.Load()
	if r == nil {
		return true // it has failed and answered
	}
	sync, due := r.Syncing()
	switch {
	case due && p.flies(u.proposals, u.bytes):
		return p.ownerFly(sync, u)
	case due:
		lost := p.runSync(sync)
		p.ownerLand(r, lost)
	default:
		p.ownerLand(r, nil) // something else has synced it
	}
	p.synced(u.began)
	p.ownerAfter()
	return true
}
