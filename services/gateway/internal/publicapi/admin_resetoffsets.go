package publicapi

import (
	"context"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
)

// ResetOffsets moves every group on a topic back to its first offset.
func (s *adminService) ResetOffsets(ctx context.Context, req *adminv1.ResetOffsetsRequest) (*adminv1.ResetOffsetsResponse, error) {
	if req.GetTopic() == "" {
		return nil, missing("topic")
	}
	groups, entries, err := s.backend.ResetOffsets(ctx, callerOf(ctx), req.GetTopic())
	if err != nil {
		return nil, err
	}
	return &adminv1.ResetOffsetsResponse{GroupsAffected: groups, EntriesReset: entries}, nil
}
