package clustertest

import (
	"context"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
)

// SetCold says what is in cold storage of a partition number of any topic, and
// from which offset on the node has it too.
func (s *Storage) SetCold(number int32, localStart int64, segments ...*storagev1.ListColdSegmentsResponse_ColdSegment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.cold == nil {
		s.mu.cold = make(map[int32]*storagev1.ListColdSegmentsResponse)
	}
	s.mu.cold[number] = &storagev1.ListColdSegmentsResponse{Segments: segments, LocalStartOffset: localStart}
}

// ListColdSegments returns no more than two segments at a time.
func (s *Storage) ListColdSegments(_ context.Context, req *storagev1.ListColdSegmentsRequest) (*storagev1.ListColdSegmentsResponse, error) {
	const page = 2
	s.mu.Lock()
	defer s.mu.Unlock()
	if refusal := s.refusalLocked(req.GetPartition().GetPartition()); refusal != nil {
		return &storagev1.ListColdSegmentsResponse{Error: refusal}, nil
	}
	known := s.mu.cold[req.GetPartition().GetPartition()]
	resp := &storagev1.ListColdSegmentsResponse{LocalStartOffset: known.GetLocalStartOffset()}
	for _, segment := range known.GetSegments() {
		if segment.GetLastOffset() < req.GetFromOffset() {
			continue
		}
		if len(resp.Segments) == page {
			resp.More = true
			break
		}
		resp.Segments = append(resp.Segments, segment)
	}
	return resp, nil
}
