package raftlog

import (
	"go.etcd.io/raft/v3/raftpb"
)

// recentMost bounds the entries that are kept; older ones are read from disk.
const recentMost = 1024

// recent keeps the last entries as raft gave them, from the append until they
// are applied, when raft asks for them again. Owner only.
type recent struct {
	// entries[head:] are consecutive in index and end with the log's last.
	entries []recentEntry
	head    int
}

type recentEntry struct {
	*raftpb.Entry
	base     int64 // of the segment that holds the batch
	position int64 // of the batch
	size     int64 // of the batch; 0 for an entry that is none
	next     int64 // offset once it is applied
}

func (r *recent) first() uint64 { return r.entries[r.head].GetIndex() }

func (r *recent) empty() bool { return r.head == len(r.entries) }

// from returns the entries from index on, or nil if it is not kept.
func (r *recent) from(index uint64) []recentEntry {
	if r.empty() || index < r.first() || index-r.first() >= uint64(len(r.entries)-r.head) {
		return nil
	}
	return r.entries[r.head+int(index-r.first()):]
}

func (r *recent) add(e recentEntry) {
	if len(r.entries)-r.head >= recentMost {
		r.drop(r.head + 1)
	}
	if len(r.entries) == cap(r.entries) && r.head > len(r.entries)/2 {
		n := copy(r.entries, r.entries[r.head:])
		clear(r.entries[n:])
		r.entries, r.head = r.entries[:n], 0
	}
	r.entries = append(r.entries, e)
}

// drop forgets the entries before a position of the slice.
func (r *recent) drop(head int) {
	clear(r.entries[r.head:head])
	r.head = head
	if r.empty() {
		r.entries, r.head = r.entries[:0], 0
	}
}

// release forgets entries up to index.
func (r *recent) release(index uint64) {
	if !r.empty() && index >= r.first() {
		r.drop(r.head + int(min(index-r.first()+1, uint64(len(r.entries)-r.head))))
	}
}

// cut forgets entries from index on.
func (r *recent) cut(index uint64) {
	if r.empty() {
		return
	}
	if index <= r.first() {
		*r = recent{}
		return
	}
	if keep := r.head + int(min(index-r.first(), uint64(len(r.entries)-r.head))); keep < len(r.entries) {
		clear(r.entries[keep:])
		r.entries = r.entries[:keep]
	}
}

// Release tells that entries up to index are applied and are no longer needed in
// memory. They stay readable. Owner only.
func (l *Log) Release(index uint64) { l.recent.release(index) }
