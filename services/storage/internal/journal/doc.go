// Package journal is the small file beside a partition's segments that holds
// what Raft needs and what is no batch: hard state, entries that are no batch,
// where segments start, cuts and points. It says which files make up the log and
// which term every offset has, so that a start after a clean stop reads nothing
// else.
//
// # Bytes
//
// Integers are little-endian. The format must not change without a new version
// in the head; a file with a version that is not known is refused.
//
//	   0  head, never rewritten
//	      magic "SluiceJn" · version u32 · salt u64 · crc u32
//	 512  note, rewritten in place and not synced by itself
//	      active base i64 · synced size i64 · commit u64 · journal end i64 · crc u32
//	1024  frames, each on a multiple of 8
//	      crc u32 · length u32 · JournalFrame
//
// Head and note have a disk sector each, so that a torn note harms nothing. Every
// checksum is CRC-32C and begins with the salt, which is random: bytes that
// somebody got into a record cannot be taken for a frame.
//
// # Frames
//
// A frame is one append: its records stand together or not at all. Each append
// is synced before the next begins. So a crash tears at most the last frame, and
// a bad frame that is followed by a good one is damage, whatever the note says;
// so is one that lies below the end that the note knows. Anything else that is
// bad is a torn tail and is cut.
//
// # Replay
//
// Table folds the records. The file is compacted by writing the table to a new
// one, which replaces the old by rename.
package journal
