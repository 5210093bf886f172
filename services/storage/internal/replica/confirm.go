package replica

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/raft/v3"
)

// confirmations are reads that wait until this replica is known to lead still. A
// leader that was deposed and has not heard of it shows what it knew, which may
// lack what another has acknowledged since. So a read that must be current asks
// the others first, by Raft's ReadIndex (the thesis, 6.4): a majority that answers
// has not moved on to another leader, and then what is committed here at the time
// of the question is all that was acknowledged anywhere.
type confirmations struct {
	// asked numbers the questions of this replica.
	asked uint64
	// waits are those for whom a question is under way, at most one at a time;
	// index is to be applied before they are answered, 0 while the others have not
	// answered.
	waits []func(error)
	index uint64
	// next wait for the next question. One that was begun before a read came may
	// be too old for it.
	next []func(error)
}

// Confirm calls done, as the replica's owner, once this replica is known to have
// led at a time after the call: a view that is taken then shows all that was
// acknowledged before it. A sole replica need not ask anybody, whether it leads or
// not: all that it has is committed. Otherwise Run has to follow. done must not
// block. ErrNotLeader, ErrNotReady, or why the replica has failed.
func (r *Replica) Confirm(done func(error)) {
	switch err := r.refusal(); {
	case r.err == nil && isSole(r.conf, r.options.ID):
		done(nil)
	case err != nil:
		done(err)
	default:
		r.confirming.next = append(r.confirming.next, done)
	}
}

// askOthers begins a question for those who wait for one.
func (r *Replica) askOthers() {
	c := &r.confirming
	if len(c.next) == 0 || len(c.waits) > 0 {
		return
	}
	c.asked++
	c.waits, c.next, c.index = c.next, nil, 0
	r.raw.ReadIndex(binary.BigEndian.AppendUint64(nil, c.asked))
}

// confirm answers those whose question the others have answered, once what was
// committed then is applied.
func (r *Replica) confirm(states []raft.ReadState) {
	c := &r.confirming
	for _, state := range states {
		if len(state.RequestCtx) == 8 && binary.BigEndian.Uint64(state.RequestCtx) == c.asked && len(c.waits) > 0 {
			c.index = state.Index
		}
	}
	if c.index == 0 || c.index > r.applied {
		return
	}
	waits := c.waits
	c.waits, c.index = nil, 0
	for _, done := range waits {
		done(nil)
	}
}

// confirmNothing answers all that wait: leadership, or the replica, went.
func (r *Replica) confirmNothing(err error) {
	c := r.confirming
	r.confirming = confirmations{asked: c.asked}
	for _, done := range append(c.waits, c.next...) {
		done(err)
	}
}

var errLeadershipWent = fmt.Errorf("%w any more", ErrNotLeader)
