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
	commit := backend.Commit{Topic: req.GetTopic(), Partition: req.GetPartition(), Offset: req.GetOffset()}
	switch {
	case req.MemberId == nil && req.Generation == nil:
	case req.GetMemberId() == "":
		return nil, missing("member_id")
	case req.Generation == nil:
		return nil, missing("generation")
	default:
		commit.Member = &backend.Claimant{ID: req.GetMemberId(), Generation: req.GetGeneration()}
	}
	if err := s.backend.CommitOffset(ctx, callerOf(ctx), req.GetGroup(), commit); err != nil {
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

// JoinGroup makes the caller a member.
func (s *Groups) JoinGroup(ctx context.Context, req *logv1.JoinGroupRequest) (*logv1.JoinGroupResponse, error) {
	if req.MemberId != nil && req.GetMemberId() == "" {
		return nil, backend.ErrInvalidRequest.WithMessage("member_id must not be empty; leave it out to join anew")
	}
	got, err := s.backend.JoinGroup(ctx, callerOf(ctx), req.GetGroup(), req.GetMemberId(), req.GetTopics())
	if err != nil {
		return nil, err
	}
	return &logv1.JoinGroupResponse{MemberId: got.ID, Generation: got.Generation, Assignment: assigned(got)}, nil
}

// Heartbeat keeps a member.
func (s *Groups) Heartbeat(ctx context.Context, req *logv1.HeartbeatRequest) (*logv1.HeartbeatResponse, error) {
	if req.GetMemberId() == "" {
		return nil, missing("member_id")
	}
	if req.Generation == nil {
		return nil, missing("generation")
	}
	generation, known, err := s.backend.Heartbeat(ctx, callerOf(ctx), req.GetGroup(), req.GetMemberId())
	if err != nil {
		return nil, err
	}
	switch {
	case !known:
		return &logv1.HeartbeatResponse{Status: "unknown_member", CurrentGeneration: &generation}, nil
	case generation != req.GetGeneration():
		return &logv1.HeartbeatResponse{Status: "rebalance_required", CurrentGeneration: &generation}, nil
	}
	return &logv1.HeartbeatResponse{Status: "ok", Generation: &generation}, nil
}

// LeaveGroup takes a member out.
func (s *Groups) LeaveGroup(ctx context.Context, req *logv1.LeaveGroupRequest) (*logv1.LeaveGroupResponse, error) {
	if req.GetMemberId() == "" {
		return nil, missing("member_id")
	}
	if err := s.backend.LeaveGroup(ctx, callerOf(ctx), req.GetGroup(), req.GetMemberId()); err != nil {
		return nil, err
	}
	return &logv1.LeaveGroupResponse{}, nil
}

// DeleteGroup deletes a group that has no members.
func (s *Groups) DeleteGroup(ctx context.Context, req *logv1.DeleteGroupRequest) (*logv1.DeleteGroupResponse, error) {
	if err := s.backend.DeleteGroup(ctx, callerOf(ctx), req.GetGroup()); err != nil {
		return nil, err
	}
	return &logv1.DeleteGroupResponse{}, nil
}

// GetAssignment returns a member's partitions.
func (s *Groups) GetAssignment(ctx context.Context, req *logv1.GetAssignmentRequest) (*logv1.GetAssignmentResponse, error) {
	if req.GetMemberId() == "" {
		return nil, missing("member_id")
	}
	got, err := s.backend.Assignment(ctx, callerOf(ctx), req.GetGroup(), req.GetMemberId())
	if err != nil {
		return nil, err
	}
	return &logv1.GetAssignmentResponse{Generation: got.Generation, Assignment: assigned(got)}, nil
}

func assigned(m backend.Membership) []*logv1.TopicPartition {
	messages := make([]logv1.TopicPartition, len(m.Partitions))
	list := make([]*logv1.TopicPartition, len(m.Partitions))
	for i, p := range m.Partitions {
		messages[i].Topic, messages[i].Partition = p.Topic, p.Partition
		list[i] = &messages[i]
	}
	return list
}
