// Package node holds the replicas of one storage node: it opens them, gives each
// an owner when there is work, and puts them to sleep.
//
// # The loop
//
// A partition has a queue under a mutex and a bit that says whether it is
// scheduled. Whoever puts the first thing into an unscheduled partition hands it
// to a bounded pool of workers; the worker that takes it owns it until the queue
// is empty, and leaves nothing behind: an idle partition has no goroutine, no
// timer, no file handle. A few workers of the node stay to wait for the next.
//
// The owner goes in rounds (round.go): it waits a moment for callers that it has just
// answered (gather.go), has what waits appended by Raft as one proposal, written with
// one write and synced once, and answers. Different partitions write and sync side by
// side.
//
// # Upkeep
//
// Passes over all partitions apply retention and compaction, by themselves and
// when asked for. They look at what is in memory, and bother an owner only where
// something is due. What takes long, reading and writing segments, is done beside
// the owner; it only swaps the result in.
//
// # Cold storage
//
// Segments go to an object store, and are read from there, beside the owner as well
// (tiering.go, coldread.go): the owner has commands committed that say what is there,
// and drops from the disk what they have. Package tier has the rules, package cold the
// objects.
//
// # A partition's life
//
// unwritten: placed, without a folder. It reads as empty and costs a map entry.
// The first append makes its folder. open: its replica is in memory. awake: its
// log also holds file handles; after a while without an append it falls asleep
// and gives them back. failed: its files are damaged, or its disk refused; it
// serves nothing, and where that can help it is opened anew after a pause.
package node
