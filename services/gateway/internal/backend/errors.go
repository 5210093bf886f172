package backend

import (
	"time"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// What the doors and their clients can act on. Messages name the subject.
var (
	ErrTopicNotFound = errs.New(errs.NotFound, "TOPIC_NOT_FOUND", "the topic does not exist")
	ErrPartition     = errs.New(errs.InvalidArgument, "UNKNOWN_PARTITION", "the topic has no such partition")
	// ErrPartitionNotFound is ErrPartition where the partition is what is asked for.
	ErrPartitionNotFound = errs.New(errs.NotFound, "PARTITION_NOT_FOUND", "the topic has no such partition")
	ErrInvalidRequest    = errs.New(errs.InvalidArgument, "INVALID_REQUEST", "invalid request")
	ErrRecordTooLarge    = errs.New(errs.InvalidArgument, "RECORD_TOO_LARGE", "the record is too large")
	ErrInvalidRecord     = errs.New(errs.InvalidArgument, "INVALID_RECORD", "the record is invalid")
	ErrOffsetOutOfRange  = errs.New(errs.OutOfRange, "OFFSET_OUT_OF_RANGE", "the offset is out of range")
	// ErrSequenceGap and ErrSequenceTooLow: nothing of the request was written.
	ErrSequenceGap    = errs.New(errs.InvalidArgument, "SEQUENCE_GAP", "sequence gap: send the missing records first")
	ErrSequenceTooLow = errs.New(errs.InvalidArgument, "SEQUENCE_TOO_LOW", "sequence too low")
	// ErrProducerBusy: other requests of the same producer came between; nothing
	// was written.
	ErrProducerBusy = errs.New(errs.Unavailable, "PRODUCER_BUSY", "several requests use the producer at once, try again")
	// ErrUnknownProducer: no key has used the producer id, or not lately.
	ErrUnknownProducer = errs.New(errs.NotFound, "PRODUCER_NOT_FOUND", "the producer does not exist")

	// ErrNoLeader: nothing was written; try again.
	ErrNoLeader = errs.New(errs.Unavailable, "NO_LEADER", "the partition has no leader just now")
	// ErrUnknownOutcome: the records may or may not have been written.
	ErrUnknownOutcome = errs.New(errs.Unavailable, "UNKNOWN_OUTCOME", "the outcome is unknown")
	ErrDamaged        = errs.New(errs.Unavailable, "PARTITION_DAMAGED", "the partition is damaged")
	ErrStorageFailed  = errs.New(errs.Unavailable, "STORAGE_FAILED", "the disk refused a write")
	// ErrNoSpace: nothing was written; reads go on.
	ErrNoSpace = errs.New(errs.Unavailable, "NO_SPACE", "no space left on a disk").WithRetryAfter(time.Second)
	// Of records that are in cold storage.
	ErrColdUnavailable = errs.New(errs.Unavailable, "COLD_STORAGE_UNAVAILABLE", "cold storage is unavailable").WithRetryAfter(time.Second)
	ErrColdDamaged     = errs.New(errs.Unavailable, "COLD_STORAGE_DAMAGED", "an object in cold storage is damaged")
	ErrOverloaded      = errs.New(errs.Unavailable, "OVERLOADED", "too much waits to be written").WithRetryAfter(time.Second)
	ErrUnsupported     = errs.New(errs.Unimplemented, "UNSUPPORTED", "not served by this version")
	ErrUnreachable     = errs.New(errs.Unavailable, "NODE_UNREACHABLE", "a node does not answer")
)

// A subject is what an error is about.
type subject struct {
	topic     string
	partition int32
}

// partitionError makes an error for callers of what storage said about a
// partition. Codes that only a fault of the gateway can cause become internal
// errors.
func (s subject) partitionError(e *storagev1.PartitionError) error {
	about := func(kind *errs.Error, what string) error {
		return kind.WithMessage("%s, partition %d of topic %q: %s", what, s.partition, s.topic, e.GetMessage())
	}
	switch e.GetCode() {
	case storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION,
		storagev1.ErrorCode_ERROR_CODE_NOT_LEADER,
		storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE:
		return s.noLeader()
	case storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME:
		return s.unknownOutcome()
	case storagev1.ErrorCode_ERROR_CODE_INVALID_RECORD,
		storagev1.ErrorCode_ERROR_CODE_INVALID_TIMESTAMP:
		return about(ErrInvalidRecord, "invalid record")
	case storagev1.ErrorCode_ERROR_CODE_RECORD_TOO_LARGE:
		return about(ErrRecordTooLarge, "record too large")
	case storagev1.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE:
		return about(ErrOffsetOutOfRange, "offset out of range")
	case storagev1.ErrorCode_ERROR_CODE_DAMAGED:
		return about(ErrDamaged, "damaged")
	case storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED:
		return about(ErrStorageFailed, "storage failed")
	case storagev1.ErrorCode_ERROR_CODE_NO_SPACE:
		return s.inStoragesWords(ErrNoSpace, e)
	case storagev1.ErrorCode_ERROR_CODE_COLD_UNAVAILABLE:
		return about(ErrColdUnavailable, "cold storage unavailable")
	case storagev1.ErrorCode_ERROR_CODE_COLD_DAMAGED:
		return about(ErrColdDamaged, "cold storage damaged")
	case storagev1.ErrorCode_ERROR_CODE_OVERLOADED:
		return about(ErrOverloaded, "overloaded")
	case storagev1.ErrorCode_ERROR_CODE_OUT_OF_ORDER_SEQUENCE:
		return s.inStoragesWords(ErrSequenceGap, e)
	case storagev1.ErrorCode_ERROR_CODE_DUPLICATE_SEQUENCE:
		return s.inStoragesWords(ErrSequenceTooLow, e)
	case storagev1.ErrorCode_ERROR_CODE_STALE_GUARD:
		return ErrProducerBusy
	case storagev1.ErrorCode_ERROR_CODE_UNSUPPORTED:
		return about(ErrUnsupported, "unsupported")
	default:
		return errs.New(errs.Internal, "STORAGE_REFUSED", "partition %d of topic %q: storage answered %s: %s",
			s.partition, s.topic, e.GetCode(), e.GetMessage())
	}
}

// inStoragesWords has the words of storage, which say what was expected or what is
// the matter.
func (s subject) inStoragesWords(kind *errs.Error, e *storagev1.PartitionError) error {
	return kind.WithMessage("%s, partition %d of topic %q", e.GetMessage(), s.partition, s.topic)
}

func (s subject) noLeader() *errs.Error {
	return ErrNoLeader.WithMessage("partition %d of topic %q has no leader just now, try again", s.partition, s.topic)
}

func (s subject) unknownOutcome() *errs.Error {
	return ErrUnknownOutcome.WithMessage(
		"the outcome is unknown: records of this request may or may not have been written to partition %d of topic %q",
		s.partition, s.topic)
}

// elsewhere says whether another replica, or the same a moment later, may serve
// what this answer refuses. Nothing was done.
func elsewhere(e *storagev1.PartitionError) bool {
	switch e.GetCode() {
	case storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION,
		storagev1.ErrorCode_ERROR_CODE_NOT_LEADER,
		storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE:
		return true
	default:
		return false
	}
}

func invalid(format string, args ...any) error {
	return ErrInvalidRequest.WithMessage(format, args...)
}
