package node

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// errPanic marks a partition that met a bug. If its owner did, it is opened anew
// after a pause, from what is on disk.
var errPanic = errors.New("panic")

// ownerRun does a task. A panic in it ends the replica, not the process.
func (p *Partition) ownerRun(t task, r *replica.Replica, err error) {
	defer p.ownerRecover(t.lost)
	t.run(r, err)
}

// ownerRecover, deferred, turns a panic into the partition's failure. lost, which
// may be nil, answers those who wait still.
func (p *Partition) ownerRecover(lost func(error)) {
	if value := recover(); value != nil {
		err := p.ownerPanicked(value)
		if lost != nil {
			lost(err)
		}
	}
}

// ownerRecoverGroup is ownerRecover for proposals; left are those who wait still.
func (p *Partition) ownerRecoverGroup(left *[]*replica.Proposal) {
	if value := recover(); value != nil {
		err := p.ownerPanicked(value)
		for _, proposal := range *left {
			proposal.Done(replica.Result{Err: err})
		}
	}
}

func (p *Partition) ownerPanicked(value any) error {
	err := p.panicked(value)
	if r := p.open.Load(); r != nil {
		return p.ownerFail(r, err)
	}
	return p.ownerRefuse(err)
}

// panicked makes an error of a panic; the log has its stack.
func (p *Partition) panicked(value any) error {
	err := fmt.Errorf("%w: %v", errPanic, value)
	p.node.options.Logger.Error("partition failed", "topic", p.topic.name, "partition", p.key.Partition,
		"error", err, "stack", string(debug.Stack()))
	return err
}

// answerOnce answers on a channel with room for one answer, unless one was given.
func answerOnce(done chan<- error) func(error) {
	return func(err error) {
		select {
		case done <- err:
		default:
		}
	}
}
