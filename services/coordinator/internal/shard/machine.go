package shard

import (
	"time"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
)

// Record is one change of a shard's state.
type Record struct {
	Key *persistv1.ShardKey
	// Value is nil to remove the key.
	Value *persistv1.ShardValue
}

// Machine is the state of one shard. It is used by one goroutine at a time and
// never blocks. Records must be all that changes it, since they are all that
// the next owner gets; only what a next owner can do without, such as when
// somebody was last heard of, may stand beside them.
type Machine interface {
	// Apply makes a record part of the state and returns what takes it back.
	// Undos are called in the reverse order of Apply, and only when the records
	// were not written. While a log is loaded they are not called at all.
	Apply(Record) (undo func())
}

// Timed is a Machine that changes with time, too. What time changes are records
// like any others.
type Timed interface {
	Machine
	// Due returns the records of what has come due. It is asked after all requests
	// that came before it, so that what they said counts; and again at once while
	// NextDue says so.
	Due(now time.Time) []Record
	// NextDue returns when to ask for what is due; the zero time is not before the
	// next request.
	NextDue() time.Time
}
