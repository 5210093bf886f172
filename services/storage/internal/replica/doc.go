// Package replica is one replica of a partition: a Raft group member whose log
// is the partition's log.
//
// A [Replica] is driven by one owner at a time and starts no goroutine. The
// owner feeds it (Propose, Step, Tick, Campaign) and then calls [Replica.Run],
// which does everything that has become possible: it writes and syncs entries,
// applies what is committed, answers proposals, and collects the messages for
// other replicas. Time enters as ticks and through Options.Now alone, so a whole
// group can be run in one goroutine by a test.
//
// # What Raft sees
//
// A batch is one Raft entry whose Data is the batch's stamped 61-byte header.
// The batch itself waits in a stash, by index, until it is written, and travels
// beside the message that carries the entry. So Raft's cloning and bookkeeping
// cost the same for a batch of 100 bytes and one of a megabyte. An entry that is
// no batch is a command (a leading tag byte, then persist.v1.Command), the empty
// entry that opens a term, or a configuration change.
//
// # Stamping
//
// Between Run and Propose nothing is unstable and no Ready is pending, so the
// log's last index and next offset are Raft's own. The owner stamps the next
// offsets and the term into the waiting batches and steps them as one proposal;
// nothing can come between. A proposal that Raft drops has appended nothing.
//
// # When a leader serves
//
// A leader takes proposals only after an entry of its own term has been
// applied: everything that earlier leaders committed is then applied too, so the
// offsets, fences and producers that it checks against are the newest.
//
// # Answers
//
// A proposal is answered exactly once: committed (with its offsets), refused
// (nothing was appended), or with [ErrUnknownOutcome] when leadership or the
// disk went while it was under way: it may still be committed.
package replica
