package publicapi

import (
	"context"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
)

// GetRaft returns the state of every Raft partition on every node.
func (s *adminService) GetRaft(ctx context.Context, _ *adminv1.GetRaftRequest) (*adminv1.GetRaftResponse, error) {
	partitions, err := s.backend.Raft(ctx, callerOf(ctx))
	if err != nil {
		return nil, err
	}
	return &adminv1.GetRaftResponse{Partitions: partitions}, nil
}
