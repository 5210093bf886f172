package replica

import (
	"time"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/storage/internal/producer"
)

// NoOwner is the owner epoch of a proposal that has none.
const NoOwner int64 = -1

// Proposal is something to append to the log: batches, or one command.
type Proposal struct {
	// Batches are checked, whole batches. They are read until Done is called and
	// never written to; offsets and leader epoch go into copies of their headers.
	Batches [][]byte
	// Command is appended instead when Batches is empty.
	Command *persistv1.Command
	// OwnerEpoch is checked against the fence; NoOwner is no owner.
	OwnerEpoch int64
	// Producer is set when the batches are of an idempotent producer.
	Producer *Sequenced
	// Done is called once, by the replica's owner. It must not block.
	Done func(Result)
}

// Sequenced says who numbered the batches of a proposal.
type Sequenced struct {
	// Batches are what the batches' headers say, in their order; all of one
	// producer. Of Kafka's kind there is one.
	Batches []producer.Batch
	// Guard is needed for batches of a wide producer; see Prepare.
	Guard producer.Guard
}

// Result is the answer to a proposal.
type Result struct {
	// Err is nil when the proposal is committed.
	Err error
	// BaseOffset is the offset of the first record, EndOffset the one after the
	// last. For a command both are the offset that it precedes.
	BaseOffset, EndOffset int64
	// StartOffset is the partition's start offset when it was applied.
	StartOffset int64
	// Duplicate tells that the batch had been appended before, at BaseOffset and,
	// where topics have it, AppendTime; nothing was written.
	Duplicate  bool
	AppendTime int64
	// WriteBegan and WriteEnded enclose the write and the sync that made it
	// durable on this replica.
	WriteBegan, WriteEnded time.Time
}
