// Package segment reads and writes the files of one segment of a partition.
//
// # Bytes
//
// A segment is named by its base offset in 20 digits. `<base>.log` holds Kafka v2
// record batches one after the other and nothing else, but that the active
// segment may end in zeros that were written ahead. `<base>.index` is derived
// from it and is written anew when it is missing or wrong; integers are
// little-endian:
//
//	 0  magic "SluiceIx" · version u32 · generation u32 · base i64 · crc u32 · 0 u32
//	32  entries of 32 bytes, ascending
//	    offset u32 · position u32 · index u32 · timestamp's offset u32
//	    timestamp i64 · crc u32 · 0 u32
//
// An entry says: at this position begins the batch with this base offset (less
// the segment's) and this raft index (less the segment's first), and of all
// batches before it the largest timestamp is this, first in the batch with that
// base offset. There is one for about each 4 KiB of batches and none for the
// segment's first batch, so a small segment has no index file. Checksums are
// CRC-32C and begin with the segment's base.
//
// The generation is 0, and one more each time that compaction writes the log file
// anew: an index of another one is of no use. From then on there may be gaps
// between batches.
//
// Kafka has a file for timestamps apart. Here one entry answers both questions,
// so that a recovery that begins at an entry knows everything up to it, whatever
// else a crash took.
package segment
