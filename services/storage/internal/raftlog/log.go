// Package raftlog is one replica's files and its raft.Storage.
package raftlog

import (
	"errors"

	"go.etcd.io/raft/v3/raftpb"
)

// Log is one replica's log. One goroutine at a time, the owner, may call the
// methods that say so; all others may be called by anyone at any time.
type Log struct{}

// FileCache bounds the read handles of a node's logs.
type FileCache struct{}

// NewFileCache returns a cache that keeps up to max handles open. Handles in use
// are never closed, so it may hold more for as long as they are.
func NewFileCache(max int) *FileCache { return &FileCache{} }

var errSkeleton = errors.New("raftlog: not built yet")

// Create makes a new folder; it is durable when Create returns.
func Create(o Options, b Bootstrap) (*Log, error) { return nil, errSkeleton }

// Open recovers a log. errors.Is(err, ErrDamaged) tells damage; fs.ErrNotExist
// that there is none.
func Open(o Options) (*Log, error) { return nil, errSkeleton }

// Recovered is what Open found.
type Recovered struct {
	HardState *raftpb.HardState
	ConfState *raftpb.ConfState // at Applied
	Applied   uint64
	State     []byte // of the last point
	Clean     bool
	TornBytes int64 // cut off the tail
}

func (l *Log) Recovered() Recovered { return Recovered{} }

func (l *Log) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return nil, nil, errSkeleton
}
func (l *Log) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) { return nil, errSkeleton }
func (l *Log) Term(i uint64) (uint64, error)                           { return 0, errSkeleton }
func (l *Log) FirstIndex() (uint64, error)                             { return 0, errSkeleton }
func (l *Log) LastIndex() (uint64, error)                              { return 0, errSkeleton }
func (l *Log) Snapshot() (*raftpb.Snapshot, error)                     { return nil, errSkeleton }

// Write is what one Ready asks to be made durable.
type Write struct {
	HardState *raftpb.HardState // nil or empty: unchanged
	Entries   []*raftpb.Entry
	Payloads  [][]byte // parallel to Entries: the whole stamped batch, or nil
	Commit    uint64   // known to be committed; noted, not synced
	MustSync  bool
}

// Write makes w durable. Owner only.
func (l *Log) Write(w Write) error { return errSkeleton }

// NextOffset is the offset that the next batch gets; LastOffset is one less.
func (l *Log) NextOffset() int64 { return 0 }
func (l *Log) LastOffset() int64 { return 0 }

// StartOffset is the base of the first segment held.
func (l *Log) StartOffset() int64 { return 0 }

// OffsetAt is the next offset once index is applied. Owner only.
func (l *Log) OffsetAt(index uint64) (int64, error) { return 0, errSkeleton }

// Release tells that entries up to index are applied and no longer needed in
// memory. Owner only.
func (l *Log) Release(index uint64) {}

// Payload is the whole batch of an entry. Owner only.
func (l *Log) Payload(index uint64) ([]byte, error) { return nil, errSkeleton }

// Chunk is a run of whole batches. Next is the offset at which to go on.
type Chunk struct {
	Bytes []byte
	Next  int64
}

// Read returns whole batches from the one that holds offset, those with a base
// below bound; the first whole even if it is larger than maxBytes.
func (l *Log) Read(offset, bound int64, maxBytes int) (Chunk, error) { return Chunk{}, errSkeleton }

// EpochAt is the epoch of an offset; -1 if it is below the first known.
func (l *Log) EpochAt(offset int64) int32 { return -1 }

// EpochEnd is the largest epoch that is at most the one asked, and where it
// ended; end is the end of the log as the caller sees it. -1, -1 as in Kafka.
func (l *Log) EpochEnd(epoch int32, end int64) (int32, int64) { return -1, -1 }

// FindTimestamp finds the first record, below bound, whose timestamp is at least
// ts.
func (l *Log) FindTimestamp(ts, bound int64) (offset, timestamp int64, ok bool, err error) {
	return 0, 0, false, errSkeleton
}

// MaxTimestamp finds the record with the largest timestamp below bound.
func (l *Log) MaxTimestamp(bound int64) (offset, timestamp int64, ok bool, err error) {
	return 0, 0, false, errSkeleton
}

// SegmentStat describes a segment.
type SegmentStat struct {
	Base, Next   int64 // offsets [Base, Next)
	FirstIndex   uint64
	Size         int64
	MaxTimestamp int64 // -1: none
	LastAppendMs int64 // wall clock
	Sealed       bool
}

// Stats describes a log.
type Stats struct {
	Segments              []SegmentStat // ascending; the last is the active one
	Bytes                 int64
	FirstIndex, LastIndex uint64
}

func (l *Log) Stats() Stats { return Stats{} }

// Point is what lets the log start from the middle: the state after applying an
// index.
type Point struct {
	Applied   uint64
	ConfState *raftpb.ConfState
	State     []byte
}

// WritePoint is durable when it returns. Owner only.
func (l *Log) WritePoint(p Point) error { return errSkeleton }

// DropBefore deletes whole sealed segments that end at or below offset and at or
// below the applied index of the last point. Owner only.
func (l *Log) DropBefore(offset int64) (dropped int, bytes int64, err error) {
	return 0, 0, errSkeleton
}

// Sleep writes p, cuts the zero tail, flushes and closes all handles; the next
// Write or Read reopens them. Owner only.
func (l *Log) Sleep(p Point) error { return errSkeleton }

// Close closes the log; a point makes it a clean stop. Owner only.
func (l *Log) Close(p *Point) error { return errSkeleton }

// Damage is the first damage that a read has met, or nil.
func (l *Log) Damage() error { return nil }
