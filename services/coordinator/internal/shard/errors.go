package shard

import "github.com/sluiceio/sluice/services/kit/errs"

// What callers can act on.
var (
	// ErrNotCoordinator: another coordinator owns the shard, or nobody does yet.
	ErrNotCoordinator = errs.New(errs.Unavailable, "NOT_COORDINATOR", "this coordinator does not own the shard")
	// ErrUnknownOutcome: the write may or may not have been made.
	ErrUnknownOutcome = errs.New(errs.Unavailable, "UNKNOWN_OUTCOME", "the write was lost sight of; it may or may not have been made")
	// ErrUnavailable: the shard's log cannot be reached; nothing was written.
	ErrUnavailable = errs.New(errs.Unavailable, "SHARD_UNAVAILABLE", "the shard's log is not available")
	// ErrOverloaded: too many requests wait for the shard.
	ErrOverloaded = errs.New(errs.ResourceExhausted, "SHARD_OVERLOADED", "too many requests wait for the shard")
	// ErrTooLarge: a write's records do not fit into one batch.
	ErrTooLarge = errs.New(errs.InvalidArgument, "WRITE_TOO_LARGE", "the write is too large for one batch")
	// ErrBadLog: the shard's log holds what this version cannot read.
	ErrBadLog = errs.New(errs.Internal, "SHARD_UNREADABLE", "the shard's log cannot be read")
)
