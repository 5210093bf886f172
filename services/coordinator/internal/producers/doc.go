// Package producers gives the string ids of idempotent producers the numbers that
// stand for them in batches.
//
// An id belongs to the key that first used it, and no other key may use it while
// it is remembered. It is forgotten when an administrator says so, or when nobody
// has used it for [Idle]; then its next use, by whatever key, gets another number.
// A number is never given out twice, so what partitions remember under the old one
// means nobody any more.
//
// All ids are in one shard: that an id has one owner and that an owner has so many
// ids are both looked at in one place. Most requests only read it: when an id was
// last used is kept in memory and written once an hour.
//
//	producer_id "checkout"  ──►  owner key_1, number 17, last used …
//	producer_numbers        ──►  1000: all numbers below may be given out
package producers
