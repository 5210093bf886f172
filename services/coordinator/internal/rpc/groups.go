package rpc

import (
	"context"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/group"
	"github.com/sluiceio/sluice/services/coordinator/internal/offsets"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
)

// Groups serves GroupService.
type Groups struct {
	coordinatorv1.UnimplementedGroupServiceServer

	groups  *group.Groups
	offsets *offsets.Offsets
	topics  TopicNames
}

// TopicNames tells what topics are called.
type TopicNames interface {
	// Name returns a topic's name, empty when it is not known.
	Name(id rows.TopicID) string
	// Sync waits until Name knows every topic that was made before the call.
	Sync(ctx context.Context) error
}

// NewGroups returns the service.
func NewGroups(g *group.Groups, o *offsets.Offsets, topics TopicNames) *Groups {
	return &Groups{groups: g, offsets: o, topics: topics}
}

// Join makes a member or renews one.
func (g *Groups) Join(ctx context.Context, req *coordinatorv1.JoinRequest) (*coordinatorv1.JoinResponse, error) {
	caller, err := group.CallerOf(req.Caller)
	if err != nil {
		return nil, err
	}
	id, got, err := g.groups.Join(ctx, caller, req.Group, req.MemberId, req.TopicIds)
	if err != nil {
		return nil, err
	}
	assigned, err := g.assigned(ctx, got)
	if err != nil {
		return nil, err
	}
	return &coordinatorv1.JoinResponse{MemberId: id, Generation: got.Generation, Assignment: assigned}, nil
}

// Heartbeat keeps a member.
func (g *Groups) Heartbeat(ctx context.Context, req *coordinatorv1.HeartbeatRequest) (*coordinatorv1.HeartbeatResponse, error) {
	caller, err := group.CallerOf(req.Caller)
	if err != nil {
		return nil, err
	}
	generation, known, err := g.groups.Heartbeat(ctx, caller, req.Group, req.MemberId)
	if err != nil {
		return nil, err
	}
	return &coordinatorv1.HeartbeatResponse{UnknownMember: !known, Generation: generation}, nil
}

// Leave takes a member out.
func (g *Groups) Leave(ctx context.Context, req *coordinatorv1.LeaveRequest) (*coordinatorv1.LeaveResponse, error) {
	caller, err := group.CallerOf(req.Caller)
	if err != nil {
		return nil, err
	}
	if err := g.groups.Leave(ctx, caller, req.Group, req.MemberId); err != nil {
		return nil, err
	}
	return &coordinatorv1.LeaveResponse{}, nil
}

// GetAssignment returns a member's partitions.
func (g *Groups) GetAssignment(ctx context.Context, req *coordinatorv1.GetAssignmentRequest) (*coordinatorv1.GetAssignmentResponse, error) {
	caller, err := group.CallerOf(req.Caller)
	if err != nil {
		return nil, err
	}
	got, err := g.groups.Membership(ctx, caller, req.Group, req.MemberId)
	if err != nil {
		return nil, err
	}
	assigned, err := g.assigned(ctx, got)
	if err != nil {
		return nil, err
	}
	return &coordinatorv1.GetAssignmentResponse{Generation: got.Generation, Assignment: assigned}, nil
}

// DeleteGroup deletes a group that has no members.
func (g *Groups) DeleteGroup(ctx context.Context, req *coordinatorv1.DeleteGroupRequest) (*coordinatorv1.DeleteGroupResponse, error) {
	caller, err := group.CallerOf(req.Caller)
	if err != nil {
		return nil, err
	}
	if err := g.offsets.DeleteGroup(ctx, caller, req.Group); err != nil {
		return nil, err
	}
	return &coordinatorv1.DeleteGroupResponse{}, nil
}

// ResetOffsets moves offsets of the groups of the shards owned here.
func (g *Groups) ResetOffsets(ctx context.Context, req *coordinatorv1.ResetOffsetsRequest) (*coordinatorv1.ResetOffsetsResponse, error) {
	done, err := g.offsets.Reset(ctx, req.TopicId, req.Offsets, req.ExceptShards)
	if err != nil {
		return nil, err
	}
	return &coordinatorv1.ResetOffsetsResponse{
		GroupsAffected: done.Groups, EntriesReset: done.Entries, Shards: done.Shards, ShardCount: int32(g.offsets.ShardCount()),
	}, nil
}

// assigned returns a member's partitions with the names of their topics. Those
// of a topic that is gone are left out: the next rebalance takes them away.
func (g *Groups) assigned(ctx context.Context, got group.Membership) ([]*coordinatorv1.Assigned, error) {
	for id := range got.Partitions {
		if g.topics.Name(id) == "" {
			if err := g.topics.Sync(ctx); err != nil {
				return nil, err
			}
			break
		}
	}
	messages := make([]coordinatorv1.Assigned, got.Partitions.Count())
	assigned := make([]*coordinatorv1.Assigned, 0, len(messages))
	for _, id := range got.Partitions.Topics() {
		name := g.topics.Name(id)
		if name == "" {
			continue
		}
		for _, partition := range got.Partitions[id] {
			a := &messages[len(assigned)]
			a.TopicId, a.Topic, a.Partition = id[:], name, partition
			assigned = append(assigned, a)
		}
	}
	return assigned, nil
}
