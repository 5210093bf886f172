// Package clean is compaction over batches: it keeps the newest record of each
// key. It knows nothing of files: batches go in, in the order of their offsets,
// and what is to stay of them comes out.
//
// # How
//
// A [Cleaner] first learns the keys of the records that are new since the last
// time ([Cleaner.Learn]) and then goes over the log from its start
// ([Cleaner.Clean]): a record whose key has been seen at a higher offset goes.
// The keys take a fixed amount of memory. When there are more, learning ends
// early, cleaning leaves alone what was not learned, and the caller goes on from
// there the next time.
//
// # What stays
//
//   - Offsets never change: a batch keeps its base and last offset, also when
//     records or all batches around it are gone.
//   - A tombstone, a record whose value is null or empty, stays until its
//     horizon, so that who reads slowly hears of it. The horizon is set when a
//     tombstone is first seen here, as in Kafka (KIP-534): the batch gets
//     attribute bit 6, and its base timestamp becomes the horizon, from which the
//     records' timestamps are told. It is set for a batch only once all of it was
//     learned: then nothing older of its keys is left that could come back when
//     the tombstone goes.
//   - The last batch of an idempotent producer stays as an empty one, with its
//     sequence, as in Kafka.
//   - Records without a key, from a time when the topic was not compacted, go, as
//     in Kafka.
//   - Batches of transactions and their markers stay as they are, and their
//     records make no others go: whether they count is not known here.
//
// What is rewritten is compressed as it was.
package clean
