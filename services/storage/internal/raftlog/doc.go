// Package raftlog is one replica's files, and its raft.Storage.
//
// # Concept
//
// The log of a partition is the Raft log, and each record batch is written once:
// into a segment, as a Kafka v2 batch and nothing else (package segment). Raft's
// own entries (the empty one that begins a term, configurations, commands) use up
// no offsets; they stand in the journal (package journal) with the offset that
// they precede. Merging the two by index gives the Raft log:
//
//	index     2      3     4     5      6     7     8
//	journal   empty                     conf
//	.log             batch batch batch        batch batch
//	offset           0     3     4            9     10
//
// A batch's entry has the batch's 61-byte header as its data; the payload goes
// beside it. Its index is its segment's first index, plus its ordinal, plus the
// journal's entries in between. Every term begins with its empty entry, so the
// journal alone knows the term of every offset, which is Kafka's leader epoch, and
// an append of batches never touches the journal: it is one write and one sync.
//
// # Compaction
//
// Sealed segments may be written anew without some of their batches (rewrite.go,
// swap.go). Then the index of a batch is no longer its ordinal, so such segments
// lie below the first index, as those of a snapshot do; and offsets may be missing
// between batches, so the place of one is not known from the one before.
//
// # What holds
//
//   - What Write acknowledged is there after a crash, with the same index, term
//     and offset; nothing is there that was not written.
//   - An entry of the journal is durable before a later batch is written, and a
//     batch before a later entry of the journal is.
//   - What Open returns is durable, though it may have been found in the page
//     cache of a process that was killed.
//   - Readers see durable bytes only, each verified once since the log was
//     opened, and bounded by what they ask for.
//   - A log that sleeps holds no file handle and under 2 KiB of memory.
//   - Damage is told apart from a torn tail: ErrDamaged marks bytes that were
//     durable once. Nothing is deleted that the journal does not say is gone.
//
// # Traps
//
// Each of these has cost a bug; the histories in the tests find it again if it is
// left out.
//
//   - A cut is two records (see cut.go). A note of before the second is not
//     believed, since it stands in another disk sector than the records.
//   - A torn tail must be cut, durably, before anything is written: the next
//     batch may have just the size that makes what comes after it fit.
//   - A file that is empty and known to be so can still have lost bytes that the
//     note knows of.
//   - The zeros that begin a torn batch are not told from those written ahead, so
//     a log that was not stopped cleanly is never taken for one that was, however
//     clean its tail looks.
//   - What replaces a segment has the segment's name only after the journal says
//     so, and until then one that tells its generation: a file of an attempt that
//     failed must not be taken for it, nor an index of before for one of after.
//   - The names of segments are durable before the journal tells of them, and go
//     only after the journal says so.
package raftlog
