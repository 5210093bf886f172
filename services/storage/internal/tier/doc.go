// Package tier is what a partition knows of its segments in cold storage, and the
// rules by which objects come and go. It is pure: commands of the log, offsets and
// terms go in, a new state or a decision comes out.
//
// # Life of an object
//
//	intent ──added──▶ segment ──start offset passes it──▶ garbage ──removed──▶ gone
//	   └─────────────────────given up, removed──────────────────────────────▶ gone
//
// Intent, added and removed are commands in the partition's log; a state changes
// by them and the start offset alone, so every replica has the same one. An object
// is named by an intent before its upload begins and until its deletion is known,
// so that after a crash or a failover somebody knows of it. Its name has the term
// of the leader that uploads it and is never used twice.
//
// # Why nothing is lost and nothing is left
//
//   - Added counts only in the term of its object. A leader applies an entry of its
//     own term before it serves, so what its state still calls an intent of an
//     earlier term never becomes a segment: its object may be deleted.
//   - An intent of the leader's own term is deleted only when its upload has ended
//     without proposing added.
//   - An object is a segment only if its segment begins where the segments end. So
//     each offset is in one segment, whoever uploads how often.
//   - The upload of a deposed leader may end after its object was deleted, and
//     leave one that nobody names. Names tell it: no state to come will name an
//     object of a term up to that of a serving leader which its state does not name
//     ([State.Strays]). A deposed leader can apply that rule as well, since its
//     successors use higher terms. So a listing, now and then, closes this hole.
//
// # Lineage
//
// Nothing is deleted because nobody remembers it. A partition whose disk was lost
// begins anew at offset and term zero, and would take what its predecessor has in
// cold storage, which may be all that is left of it, for strays. So names have the
// lineage of their log, which its first intent draws at random: what is of another
// is not looked at, and goes with its topic alone.
package tier
