// Package batch reads and writes record batches, with tolerant decoding and bounded
// decompression.
package batch
