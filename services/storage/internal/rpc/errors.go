package rpc

import (
	"context"
	"errors"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/storage/internal/check"
	"github.com/sluiceio/sluice/services/storage/internal/cold"
	"github.com/sluiceio/sluice/services/storage/internal/node"
	"github.com/sluiceio/sluice/services/storage/internal/producer"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// errorCodes is the one table from the node's errors to the codes of the wire. The
// first match counts. A caller is told the whole text, unless it comes from below
// the log: then it names files, and the node's own log has it.
var errorCodes = []struct {
	err  error
	code storagev1.ErrorCode
}{
	// First: whatever else went wrong, an append may be there all the same.
	{replica.ErrUnknownOutcome, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME},
	{node.ErrUnknownPartition, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION},
	{node.ErrDamaged, storagev1.ErrorCode_ERROR_CODE_DAMAGED},
	{node.ErrNoSpace, storagev1.ErrorCode_ERROR_CODE_NO_SPACE},
	{node.ErrQuota, storagev1.ErrorCode_ERROR_CODE_NO_SPACE},
	{node.ErrDisk, storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED},
	{cold.ErrDamaged, storagev1.ErrorCode_ERROR_CODE_COLD_DAMAGED},
	{cold.ErrUnavailable, storagev1.ErrorCode_ERROR_CODE_COLD_UNAVAILABLE},
	{node.ErrOverloaded, storagev1.ErrorCode_ERROR_CODE_OVERLOADED},
	{node.ErrOffsetOutOfRange, storagev1.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE},
	{replica.ErrStartOutOfRange, storagev1.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE},
	{replica.ErrNotLeader, storagev1.ErrorCode_ERROR_CODE_NOT_LEADER},
	{replica.ErrNotReady, storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE},
	{replica.ErrTermTooLarge, storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE},
	{replica.ErrStopped, storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE},
	{node.ErrStopping, storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE},
	{producer.ErrStaleGuard, storagev1.ErrorCode_ERROR_CODE_STALE_GUARD},
	{producer.ErrBadGuard, storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST},
	{producer.ErrBadBatch, storagev1.ErrorCode_ERROR_CODE_INVALID_RECORD},
	{context.Canceled, storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE},
	{context.DeadlineExceeded, storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE},
	{errInvalid, storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST},
	{errUnsupported, storagev1.ErrorCode_ERROR_CODE_UNSUPPORTED},
}

// withoutFiles has the codes of errors that come from below the log and name the
// server's files, with what a caller is told instead; the node's own log has the
// rest.
var withoutFiles = map[storagev1.ErrorCode]error{
	storagev1.ErrorCode_ERROR_CODE_DAMAGED:         node.ErrDamaged,
	storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED:  node.ErrDisk,
	storagev1.ErrorCode_ERROR_CODE_NO_SPACE:        node.ErrNoSpace,
	storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME: replica.ErrUnknownOutcome,
	// These name objects and the store's address.
	storagev1.ErrorCode_ERROR_CODE_COLD_DAMAGED:     cold.ErrDamaged,
	storagev1.ErrorCode_ERROR_CODE_COLD_UNAVAILABLE: cold.ErrUnavailable,
}

var (
	errInvalid     = errors.New("invalid request")
	errUnsupported = errors.New("not served by this version")
)

// faultCodes are the codes of what is wrong with sequences.
var faultCodes = map[producer.Fault]storagev1.ErrorCode{
	producer.Gap:      storagev1.ErrorCode_ERROR_CODE_OUT_OF_ORDER_SEQUENCE,
	producer.TooOld:   storagev1.ErrorCode_ERROR_CODE_DUPLICATE_SEQUENCE,
	producer.OldEpoch: storagev1.ErrorCode_ERROR_CODE_INVALID_PRODUCER_EPOCH,
}

// partitionError maps the failure of one partition of a call.
func partitionError(err error) *storagev1.PartitionError {
	if err == nil {
		return nil
	}
	code, known := codeOf(err)
	if !known {
		code = storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED
	}
	out := &storagev1.PartitionError{Code: code, Message: err.Error()}
	if text, ok := withoutFiles[code]; ok {
		out.Message = text.Error()
	}
	var failure *node.FailureError
	if errors.As(err, &failure) && code != storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME {
		out.Message = failure.Told()
	}
	var refused *check.Error
	if errors.As(err, &refused) && refused.Record >= 0 {
		out.Record = new(int32(refused.Record))
	}
	var sequence *producer.Error
	if errors.As(err, &sequence) {
		out.Record = new(int32(sequence.Record))
	}
	var notLeader *node.NotLeaderError
	if errors.As(err, &notLeader) {
		out.Leader = hint(notLeader)
	}
	return out
}

// codeOf finds the code of an error. It is not known of errors that the node
// should have given a kind.
func codeOf(err error) (code storagev1.ErrorCode, known bool) {
	var (
		refused   *check.Error
		notLeader *node.NotLeaderError
		epoch     *node.EpochError
		fenced    *replica.FencedError
		sequence  *producer.Error
	)
	switch {
	case errors.As(err, &refused):
		return refused.Code, true
	case errors.As(err, &notLeader) && notLeader.Leader == "":
		return storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE, true
	case errors.As(err, &notLeader):
		return storagev1.ErrorCode_ERROR_CODE_NOT_LEADER, true
	case errors.As(err, &epoch) && epoch.Asked < epoch.Current:
		return storagev1.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH, true
	case errors.As(err, &epoch):
		return storagev1.ErrorCode_ERROR_CODE_UNKNOWN_LEADER_EPOCH, true
	case errors.As(err, &sequence):
		return faultCodes[sequence.Fault], true
	case errors.As(err, &fenced):
		return storagev1.ErrorCode_ERROR_CODE_FENCED_OWNER, true
	}
	for _, row := range errorCodes {
		if errors.Is(err, row.err) {
			return row.code, true
		}
	}
	return storagev1.ErrorCode_ERROR_CODE_UNSPECIFIED, false
}

func hint(to *node.NotLeaderError) *storagev1.LeaderHint {
	return &storagev1.LeaderHint{Node: to.Leader, Epoch: to.Epoch}
}
