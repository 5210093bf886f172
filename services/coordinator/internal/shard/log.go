package shard

import (
	"context"
	"errors"
)

// Log is where the records of all shards are. Its methods may be called by many
// goroutines, and block. Errors they return are of one of the kinds below.
type Log interface {
	// Fence raises a shard's epoch. It returns the offset up to which the log
	// has to be read to know all that older owners have written.
	Fence(ctx context.Context, shard int32, epoch int64) (end int64, err error)
	// Read returns committed records from an offset on, and the offset at which
	// to go on, which is not larger than before when there is nothing.
	Read(ctx context.Context, shard int32, offset int64) (records []Record, next int64, err error)
	// Append writes records as one batch, whole or not at all, and returns when
	// it is committed.
	Append(ctx context.Context, shard int32, epoch int64, records []Record) error
}

// The kinds of failure of a Log. Any other error of Append leaves the outcome
// unknown.
var (
	// errFenced: the log has seen a higher epoch; nothing was done, and nothing
	// will be with this epoch.
	errFenced = errors.New("fenced by a newer owner")
	// errNotNow: nothing was done; it may work in a moment.
	errNotNow = errors.New("not available just now")
	// errRefused: nothing was done, and trying again would not help.
	errRefused = errors.New("refused")
)
