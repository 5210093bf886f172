// Package group keeps consumer groups: whom each belongs to, who is a member and
// which partitions each member reads.
//
// # State
//
// A group is in the shard that its name hashes to, as three kinds of records:
//
//	group                  owner and generation; it stays when there is no member,
//	                       until somebody deletes it
//	group, member          the key that the member is bound to, and its topics
//	group, member          its partitions (apart, since rebalances change only these)
//
// and one for all that were deleted: the highest of their generations, above which
// those of new groups begin. A group that is deleted and made again has none twice,
// however long a member of its earlier life was away, and what is kept for that does
// not grow.
//
// Every change of the members, of what one subscribes to or of the partitions
// there are is a rebalance: package assign shares the partitions out anew, and
// the records of all that changed, with the next generation, are one batch. So no
// owner of the shard, now or after a crash, sees a partition with two members or
// a generation twice.
//
// When a member was last heard of is no record: heartbeats would write without
// end. After a load every member gets a fresh timeout, so a coordinator that was
// away, or slow to look, evicts nobody for it.
//
// # What a member may rely on
//
// A rebalance takes effect at once: the answer of a join has partitions that
// another member, which has not sent a heartbeat since, may still be reading. Who
// must not work on a record twice has to wait, or to fence its work by the
// generation; docs/http.md tells clients how.
package group
