package replica

import (
	"errors"
	"fmt"
)

var (
	// ErrNotLeader refuses a proposal at a replica that does not lead. Nothing
	// was appended.
	ErrNotLeader = errors.New("replica does not lead")

	// ErrNotReady refuses a proposal at a leader that has not applied an entry of
	// its own term yet. Nothing was appended.
	ErrNotReady = errors.New("leader has not committed in its term yet")

	// ErrUnknownOutcome answers a proposal that was appended and lost sight of. It
	// may or may not become committed.
	ErrUnknownOutcome = errors.New("the outcome of the append is unknown")

	// ErrStopped answers what came to, or still waited at, a stopped replica.
	ErrStopped = errors.New("replica is stopped")

	// ErrStartOutOfRange refuses a start offset above the high watermark.
	ErrStartOutOfRange = errors.New("start offset is above the high watermark")

	// ErrTermTooLarge refuses to lead in a term that Kafka's 32-bit leader epoch
	// cannot carry.
	ErrTermTooLarge = errors.New("raft term exceeds the 32 bits of a leader epoch")
)

// FencedError refuses a proposal whose owner has been replaced.
type FencedError struct {
	// Epoch is what the proposal carried, Fence the partition's.
	Epoch, Fence int64
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("owner epoch %d is fenced by %d", e.Epoch, e.Fence)
}
