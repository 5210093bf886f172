package raftlog

import (
	"log/slog"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/kit/vfs"
)

// Options says where a log lives and by which rules. FS, Dir and Files are
// required.
type Options struct {
	FS  vfs.FS
	Dir string

	// Logger hears of recovered tails and of damage. Nil is silent.
	Logger *slog.Logger

	// Limits is asked at each decision to roll, so a change of config counts
	// from the next roll. Nil gives DefaultLimits.
	Limits func() Limits

	// Now is the wall clock; nil is time.Now.
	Now func() time.Time

	// Replicated says that other replicas exist. It decides what a bad batch
	// above the note means when valid batches follow it: damage, which the
	// others can repair, or else a torn tail, which is cut.
	Replicated bool

	// Scheduler runs a function soon, on a goroutine of its own; the log
	// writes zeros ahead on it. Nil writes none ahead.
	Scheduler func(func())

	// DeleteGrace is how long the files of a dropped segment stay, for those who
	// read them just then. After a restart they go at once.
	DeleteGrace time.Duration

	// Files bounds the handles that readers hold open, over all logs of a
	// node.
	Files *FileCache
}

// Limits say when a segment is full and how dense its index is.
type Limits struct {
	// SegmentBytes is the size at which a segment is sealed. A batch that is
	// larger has a segment of its own.
	SegmentBytes int64
	// SegmentMs is the age, counted from a segment's first append, from which
	// the next append seals it.
	SegmentMs int64
	// IndexInterval is the number of bytes between index entries.
	IndexInterval int64
}

// DefaultLimits are Kafka's.
func DefaultLimits() Limits {
	return Limits{SegmentBytes: 1 << 30, SegmentMs: 7 * 24 * 3600 * 1000, IndexInterval: 4096}
}

// Bootstrap is what a new log begins with: a snapshot with index 1 and term 1
// that holds nothing but the first configuration.
type Bootstrap struct {
	ConfState *raftpb.ConfState
}
