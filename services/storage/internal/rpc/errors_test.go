package rpc

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/storage/internal/node"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

func TestErrorsKeepFilesToThemselves(t *testing.T) {
	for sentinel, code := range map[error]storagev1.ErrorCode{
		node.ErrDamaged:           storagev1.ErrorCode_ERROR_CODE_DAMAGED,
		node.ErrDisk:              storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED,
		replica.ErrUnknownOutcome: storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME,
	} {
		got := partitionError(fmt.Errorf("fetch t/0: %w: open /data/0.log: gone", sentinel))
		require.Equal(t, code, got.GetCode())
		require.Equal(t, sentinel.Error(), got.GetMessage())
	}
	got := partitionError(fmt.Errorf("fetch t/0: %w: 5 is not in 0..3", node.ErrOffsetOutOfRange))
	require.Equal(t, "fetch t/0: offset out of range: 5 is not in 0..3", got.GetMessage())
}
