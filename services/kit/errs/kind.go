package errs

import "google.golang.org/grpc/codes"

// Kind is what a caller can do about an error. Each is the gRPC code of the
// same name, so a kind survives the wire.
type Kind codes.Code

// The kinds.
const (
	// Canceled: the caller hung up.
	Canceled = Kind(codes.Canceled)
	// InvalidArgument: the request is wrong whatever the state; do not retry.
	InvalidArgument = Kind(codes.InvalidArgument)
	// DeadlineExceeded: the outcome is not known.
	DeadlineExceeded = Kind(codes.DeadlineExceeded)
	NotFound         = Kind(codes.NotFound)
	AlreadyExists    = Kind(codes.AlreadyExists)
	// PermissionDenied: we know who asks, and it may not.
	PermissionDenied = Kind(codes.PermissionDenied)
	// ResourceExhausted: over a quota or a limit; retry later, see RetryAfter.
	ResourceExhausted = Kind(codes.ResourceExhausted)
	// FailedPrecondition: right request, wrong state; retry when it changed.
	FailedPrecondition = Kind(codes.FailedPrecondition)
	// Aborted: lost a race or was fenced; start over, do not repeat.
	Aborted = Kind(codes.Aborted)
	// OutOfRange: past an end that may move.
	OutOfRange    = Kind(codes.OutOfRange)
	Unimplemented = Kind(codes.Unimplemented)
	// Internal: a fault of ours. Its text never leaves the process, see Mask.
	Internal = Kind(codes.Internal)
	// Unavailable: nobody to ask just now; retry.
	Unavailable = Kind(codes.Unavailable)
	// DataLoss: corruption; never retried, reported loudly.
	DataLoss = Kind(codes.DataLoss)
	// Unauthenticated: we do not know who asks.
	Unauthenticated = Kind(codes.Unauthenticated)
)

// String returns the name, such as NotFound.
func (k Kind) String() string {
	return codes.Code(k).String()
}
