// Package recordbatch reads, checks, stamps and builds Kafka record batches of
// format version 2 (magic 2, KIP-98). They are what a log holds, what producers
// send and what consumers get, so nothing here may ever change a byte of them.
//
// All numbers are big endian. A batch is a header of 61 bytes and its records:
//
//	 0  base offset           int64
//	 8  length                int32   bytes after this field
//	12  leader epoch          int32
//	16  magic                 int8    2
//	17  CRC                   uint32  CRC-32C of all that follows
//	21  attributes            int16   see Attributes
//	23  last offset delta     int32
//	27  base timestamp        int64   milliseconds
//	35  max timestamp         int64
//	43  producer id           int64   -1: none
//	51  producer epoch        int16   -1: none
//	53  base sequence         int32   -1: none
//	57  record count          int32
//	61  records, compressed as the attributes say
//
// Base offset, length, leader epoch and magic are not under the CRC: the leader
// stamps offset and epoch into a batch without reading the rest ([Stamp]).
//
// A record's numbers are zigzag varints, but for the attributes, a byte that has
// no meaning yet:
//
//	length  attributes  timestamp delta  offset delta
//	key length  key  value length  value
//	header count  { key length  key  value length  value }
//
// Lengths of -1 stand for null. Offset deltas need not be dense: compaction
// leaves gaps, and a batch without records where it must keep the producer's
// sequence.
//
// What comes from outside is bounded here: no length that a batch names is
// believed before its bytes are there, and compressed records stop growing at
// [Limits].
package recordbatch
