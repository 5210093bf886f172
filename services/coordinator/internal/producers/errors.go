package producers

import "github.com/sluiceio/sluice/services/kit/errs"

// What callers can act on.
var (
	ErrInvalidID = errs.New(errs.InvalidArgument, "INVALID_PRODUCER_ID", "the producer id is invalid")
	ErrNoOwner   = errs.New(errs.InvalidArgument, "NO_CALLER", "it is not said whose the producer id is")
	// ErrNotOwner: the id belongs to another key. Nothing is told of it.
	ErrNotOwner = errs.New(errs.PermissionDenied, "PRODUCER_OF_ANOTHER_KEY", "the producer id belongs to another key")
	// ErrTooMany: the key owns as many ids as it may.
	ErrTooMany = errs.New(errs.ResourceExhausted, "TOO_MANY_PRODUCERS", "the key owns as many producer ids as it may")
	// ErrNumbersExhausted cannot happen in a lifetime.
	ErrNumbersExhausted = errs.New(errs.Internal, "PRODUCER_NUMBERS_EXHAUSTED", "all numbers of producers are given out")
)
