package replica

import (
	"sync"
	"time"
)

// maxPooledPending is how many proposals a list may have had room for to be used
// again.
const maxPooledPending = 1024

// pending is a proposal that has been appended.
type pending struct {
	proposal *Proposal
	// last is the index of its last entry, term the term of all.
	last, term uint64
	base, end  int64
	// duplicate is set when the entry was there before.
	duplicate  bool
	appendTime int64
	// Set when its entries are durable here.
	began, ended time.Time
}

// pendingList is pending proposals in the order of their indexes, first in first
// out.
type pendingList struct {
	// items[head:] are pending.
	items []pending
	head  int
}

// pendingLists are empty ones: a replica has one only while something is pending.
var pendingLists = sync.Pool{New: func() any { return new(pendingList) }}

func (l *pendingList) empty() bool { return l == nil || l.head == len(l.items) }

// all are those that wait. They are good until the list changes.
func (l *pendingList) all() []pending {
	if l == nil {
		return nil
	}
	return l.items[l.head:]
}

// drop removes the first n.
func (l *pendingList) drop(n int) {
	clear(l.items[l.head : l.head+n])
	l.head += n
}

// cut removes all but the first n and returns them.
func (l *pendingList) cut(n int) []pending {
	if l == nil {
		return nil
	}
	tail := l.items[l.head+n:]
	l.items = l.items[:l.head+n]
	return tail
}

// wait adds a pending proposal.
func (r *Replica) wait(p pending) {
	if r.waiting == nil {
		r.waiting = pendingLists.Get().(*pendingList)
	}
	r.waiting.items = append(r.waiting.items, p)
}

// answer answers the proposals at the front that are applied. Another's entry at
// a proposal's index means that a later leader cut it: it was never committed.
// That cannot be told here from the index alone, but a leader that is cut has
// stepped down first, and then nothing waits.
func (r *Replica) answer() {
	all, done := r.waiting.all(), 0
	for ; done < len(all) && all[done].last <= r.applied; done++ {
		p := &all[done]
		p.proposal.Done(Result{
			BaseOffset: p.base, EndOffset: p.end, StartOffset: r.state.StartOffset,
			Duplicate: p.duplicate, AppendTime: p.appendTime,
			WriteBegan: p.began, WriteEnded: p.ended,
		})
	}
	if done > 0 {
		r.waiting.drop(done)
	}
	if r.waiting != nil && r.waiting.empty() {
		l := r.waiting
		r.waiting = nil
		if l.items, l.head = l.items[:0], 0; cap(l.items) <= maxPooledPending {
			pendingLists.Put(l)
		}
	}
}

// dropWaiting answers all that waits with an error.
func (r *Replica) dropWaiting(err error) {
	waiting := r.waiting.all()
	r.waiting = nil
	for _, p := range waiting {
		p.proposal.Done(Result{Err: err})
	}
}
