// Package cold writes and reads the objects of cold storage.
//
// An object holds the record batches of a segment as they are in the .log, and
// behind them an index in the format of the .index (package segment). What the
// object is called, how long its parts are and which epochs its batches have stands
// in the partition's log (package tier); nothing is taken from the object that was
// not verified against that.
//
// A [Draft] makes an object of a segment's file without holding it in memory. A
// [Reader] reads objects by range, in blocks that a cache of bounded size keeps for
// all partitions of a node. However many ask for a block, it is fetched once, and
// only while somebody waits for it.
package cold
