package publicapi

import (
	"context"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
)

// ListTieredSegments returns the segments of a partition in cold storage.
func (s *adminService) ListTieredSegments(ctx context.Context, req *adminv1.ListTieredSegmentsRequest) (*adminv1.ListTieredSegmentsResponse, error) {
	if req.GetTopic() == "" {
		return nil, missing("topic")
	}
	segments, err := s.backend.TieredSegments(ctx, callerOf(ctx), req.GetTopic(), req.GetPartition())
	if err != nil {
		return nil, err
	}
	return &adminv1.ListTieredSegmentsResponse{Segments: segments}, nil
}
