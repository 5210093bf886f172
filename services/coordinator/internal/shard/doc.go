// Package shard runs state machines whose changes are records of a log.
//
// A shard is one partition of an internal, compacted topic, and the state that
// its records make. One coordinator owns it at a time. Within the owner one
// queue serves it, and a goroutine only while there is work:
//
//	queue ──► writes: read the state, emit records, apply them ─┐
//	  ▲                                                         ▼
//	  │                                         one batch, one append
//	  │                                                         │
//	  │            committed: answer the writes, then the reads ◄┤
//	  │       surely not written: undo, answer that it is not ◄──┤
//	  └── otherwise: forget the state, own anew, load again ◄────┘
//
// All writes that wait go into one batch, which is written whole or not at all;
// what comes meanwhile waits for the next. So at most one append is under way,
// the state is the committed one whenever none is, and reads, which run only
// then, see nothing that could still be lost. A read sees every write that was
// answered before the read came.
//
// # Ownership
//
// Owners are rows in etcd, put if absent under the process's lease; the row's
// create revision is the owner's epoch. A new owner first has the partition
// fenced with its epoch, which is a command in the partition's own log: once it
// is committed, every leader of the partition refuses appends of older epochs,
// so the log that the new owner then reads to its end is all that an older one
// can ever have written. A write that a stale owner answers was therefore
// appended before the fence and read by the new owner; it can answer no other.
// Reads of a stale owner are kept out by its lease: it answers none after the
// moment from which etcd may have given the shard away.
//
// An append whose outcome is unknown may still be on its way and be written
// later. Reading the log again under the same epoch could miss it, so the owner
// gives the shard up and takes it again under a higher one, whose fence
// settles what became of the append.
package shard
