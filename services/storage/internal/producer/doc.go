// Package producer is what a partition remembers of idempotent producers, so
// that a batch which is sent again is not written again.
//
// There are two kinds, and one [Table] keeps both:
//
//   - Producers of Kafka's kind number batches with 31-bit sequences that wrap
//     around, under an epoch. Their last five batches are known, and a retry is
//     one that has exactly the range of one of them.
//   - Producers of our own kind (recordbatch.WideProducer) number records with
//     64-bit sequences. Their last [Window] records are known, one by one.
//
// # Where the truth is
//
// A Table follows from the log: the owner of a replica applies the header of each
// committed batch to it, in log order, so every replica has it. It cannot be
// derived any more once a prefix of the log is gone; so points and snapshots keep
// it. A leader checks what is to be appended against [Ahead], which is the Table
// and, on top, what the leader has appended and not yet seen committed; it goes
// when the leader steps down.
//
// Applying never refuses: a batch that does not follow what is known of its
// producer makes a new beginning, since the leader that let it in knew that the
// old one had expired. When a producer last appended is each replica's own clock,
// later after a replay than it was; a window can be remembered for too long, never
// for too short a time.
//
// # Guards
//
// A request of our own kind may go to several partitions and is checked on all of
// them before it is written to any. Checking returns a [Guard], which says what
// the verdict rests on; the append brings it back and is refused when that does
// not hold any more.
package producer
