package publicapi

import (
	"context"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
)

// Groups is GroupService.
type Groups struct {
	logv1.UnimplementedGroupServiceServer
	backend *backend.Backend
}

// NewGroups returns the handler.
func NewGroups(b *backend.Backend) *Groups { return &Groups{backend: b} }

// ConsumeGroup reads a partition from a group's committed offset.
func (s *Groups) ConsumeGroup(ctx context.Context, req *logv1.ConsumeGroupRequest) (*logv1.ConsumeGroupResponse, error) {
	if req.GetTopic() == "" {
		return nil, missing("topic")
	}
	if req.Partition == nil {
		return nil, missing("partition")
	}
	read := readOf(req.GetTopic(), req.GetPartition(), req.MaxRecords, req.MaxBytes, req.GetMaxWaitMs())
	fetched, err := s.backend.ConsumeGroup(ctx, callerOf(ctx), req.GetGroup(), read)
	if err != nil {
		return nil, err
	}
	return &logv1.ConsumeGroupResponse{Result: consumed(read.Partition, fetched)}, nil
}

// CommitOffset records the next offset that a group will read.
func (s *Groups) CommitOffset(ctx context.Context, req *logv1.CommitOffsetRequest) (*logv1.CommitOffsetResponse, error) {
	if req.GetTopic() == "" {
		return nil, missing("topic")
	}
	if req.Partition == nil {
		return nil, missing("partition")
	}
	if req.Offset == nil {
		return nil, missing("offset")
	}
	err := s.backend.CommitOffset(ctx, callerOf(ctx), req.GetGroup(), req.GetTopic(), req.GetPartition(), req.GetOffset())
	if err != nil {
		return nil, err
	}
	return &logv1.CommitOffsetResponse{}, nil
}

// GetOffsets returns a group's committed offsets.
func (s *Groups) GetOffsets(ctx context.Context, req *logv1.GetOffsetsRequest) (*logv1.GetOffsetsResponse, error) {
	offsets, err := s.backend.CommittedOffsets(ctx, callerOf(ctx), req.GetGroup())
	if err != nil {
		return nil, err
	}
	resp := &logv1.GetOffsetsResponse{Offsets: make(map[string]*logv1.PartitionOffsets, len(offsets))}
	for topic, partitions := range offsets {
		resp.Offsets[topic] = &logv1.PartitionOffsets{Partitions: partitions}
	}
	return resp, nil
}
