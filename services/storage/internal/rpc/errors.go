package rpc

import (
	"errors"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/storage/internal/check"
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
	{node.ErrUnknownPartition, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION},
	{node.ErrDamaged, storagev1.ErrorCode_ERROR_CODE_DAMAGED},
	{replica.ErrUnknownOutcome, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME},
	{node.ErrDisk, storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED},
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
	{errInvalid, storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST},
	{errUnsupported, storagev1.ErrorCode_ERROR_CODE_UNSUPPORTED},
}

// namesFiles are the codes whose errors may do so.
var namesFiles = map[storagev1.ErrorCode]bool{
	storagev1.ErrorCode_ERROR_CODE_DAMAGED:         true,
	storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED:  true,
	storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME: true,
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
	out := &storagev1.PartitionError{
		Code:    storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED,
		Message: err.Error(),
	}
	var (
		refused   *check.Error
		notLeader *node.NotLeaderError
		epoch     *node.EpochError
		fenced    *replica.FencedError
		sequence  *producer.Error
	)
	switch {
	case errors.As(err, &refused):
		out.Code = refused.Code
		if refused.Record >= 0 {
			out.Record = new(int32(refused.Record))
		}
	case errors.As(err, &notLeader):
		out.Code = storagev1.ErrorCode_ERROR_CODE_NOT_LEADER
		if notLeader.Leader == "" {
			out.Code = storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE
		}
		out.Leader = hint(notLeader)
	case errors.As(err, &epoch):
		out.Code = storagev1.ErrorCode_ERROR_CODE_UNKNOWN_LEADER_EPOCH
		if epoch.Asked < epoch.Current {
			out.Code = storagev1.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH
		}
	case errors.As(err, &sequence):
		out.Code = faultCodes[sequence.Fault]
		out.Record = new(int32(sequence.Record))
	case errors.As(err, &fenced):
		out.Code = storagev1.ErrorCode_ERROR_CODE_FENCED_OWNER
	default:
		for _, row := range errorCodes {
			if errors.Is(err, row.err) {
				out.Code = row.code
				if namesFiles[row.code] {
					out.Message = row.err.Error()
				}
				break
			}
		}
	}
	return out
}

func hint(to *node.NotLeaderError) *storagev1.LeaderHint {
	return &storagev1.LeaderHint{Node: to.Leader, Epoch: to.Epoch}
}
