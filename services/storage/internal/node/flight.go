package node

import (
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

const (
	// maxFlying is how many groups are on their way to the disk at once: one that is
	// being synced, and one that is written, so that its sync begins as the other's
	// ends. Syncs of one file do not run side by side (segment.Syncing), so more would
	// only make the groups smaller.
	maxFlying = 2
	// A group flies if it has so many proposals, or bytes. With less its owner syncs
	// it himself: a sync costs as much CPU as a dozen appends, and waking another
	// worker some, too.
	defaultFlyFrom = 96
	flyFromBytes   = 256 << 10
)

// flies tells whether the partition is to have an owner while so much is synced.
func (p *Partition) flies(proposals, bytes int) bool {
	p.queue.Lock()
	defer p.queue.Unlock()
	return p.queue.flying > 0 || proposals >= p.node.options.FlyFrom || bytes >= flyFromBytes
}

// ownerFly runs a sync and is no owner meanwhile: whoever is appends the next
// groups. It tells whether it owns the partition again. Then the round that follows
// answers what is durable; otherwise the owner does.
func (p *Partition) ownerFly(sync raftlog.Syncing, u unsynced) (owns bool) {
	p.queue.Lock()
	p.queue.flying++
	p.queue.scheduled = false
	push := p.waitsLocked() && p.scheduleLocked()
	p.queue.Unlock()
	if push {
		p.node.pool.push(p, false)
	}
	lost := p.runSync(sync)
	p.synced(u.began)
	p.queue.Lock()
	p.queue.flying--
	p.queue.landed = true
	if lost != nil {
		p.queue.lost = lost
	}
	owns, sleeper := p.scheduleLocked(), p.wakeLocked()
	p.queue.Unlock()
	sleeper.wake()
	return owns
}

// waitsLocked tells whether there is something to do for an owner.
func (p *Partition) waitsLocked() bool {
	return p.queue.group != nil || len(p.queue.tasks) > 0 || p.queue.landed
}

// runSync returns the error of a panic alone: that of the disk meets the replica.
func (p *Partition) runSync(sync raftlog.Syncing) (lost error) {
	defer func() {
		if value := recover(); value != nil {
			lost = p.panicked(value)
		}
	}()
	_ = sync.Run()
	return nil
}

// ownerLand has the replica answer what is durable by now. r is nil for one that
// has failed, and has answered.
func (p *Partition) ownerLand(r *replica.Replica, lost error) {
	if r == nil {
		return
	}
	if lost != nil {
		r.Fail(lost)
		return
	}
	_ = r.RunAhead() // the replica keeps its failure
}
