package producer

import (
	"errors"
	"fmt"
)

// Fault is what is wrong with a sequence or an epoch.
type Fault int

// The faults. Kafka's codes for them are 45, 46 and 47.
const (
	// Gap: sequences before it have not come.
	Gap Fault = iota
	// TooOld: it is below what is known, or known to be written and not where.
	TooOld
	// OldEpoch: the producer has a newer epoch.
	OldEpoch
)

// Error refuses sequences. Nothing was appended.
type Error struct {
	Fault Fault
	// Record is the ordinal of the record in what was checked.
	Record int
	// Expected is the next sequence for a Gap, the oldest known one for TooOld,
	// the current epoch for OldEpoch.
	Expected, Got int64
}

func (e *Error) Error() string {
	switch e.Fault {
	case Gap:
		return fmt.Sprintf("sequence gap: send the missing records first (expected %d, got %d)", e.Expected, e.Got)
	case TooOld:
		return fmt.Sprintf("sequence too low (the oldest that is still known is %d, got %d)", e.Expected, e.Got)
	default:
		return fmt.Sprintf("producer epoch %d is older than the current %d", e.Got, e.Expected)
	}
}

// ErrStaleGuard refuses an append whose guard does not hold any more. Nothing was
// appended.
var ErrStaleGuard = errors.New("the guard does not hold any more")

// ErrBadGuard is bytes that are no guard.
var ErrBadGuard = errors.New("malformed guard")

// errState is a point's state that no table has.
func errState(format string, args ...any) error {
	return fmt.Errorf("state of producers: "+format, args...)
}
