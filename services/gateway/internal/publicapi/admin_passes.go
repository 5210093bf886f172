package publicapi

import (
	"context"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
)

// RunRetention runs a retention pass on every node.
func (s *adminService) RunRetention(ctx context.Context, _ *adminv1.RunRetentionRequest) (*adminv1.RunRetentionResponse, error) {
	if err := s.backend.RunPass(ctx, callerOf(ctx), storagev1.Pass_PASS_RETENTION); err != nil {
		return nil, err
	}
	return &adminv1.RunRetentionResponse{}, nil
}

// RunCompaction runs a compaction pass on every node.
func (s *adminService) RunCompaction(ctx context.Context, _ *adminv1.RunCompactionRequest) (*adminv1.RunCompactionResponse, error) {
	if err := s.backend.RunPass(ctx, callerOf(ctx), storagev1.Pass_PASS_COMPACTION); err != nil {
		return nil, err
	}
	return &adminv1.RunCompactionResponse{}, nil
}
