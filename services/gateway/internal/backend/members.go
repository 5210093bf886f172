package backend

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/grpc"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
)

// maxSubscription limits the topics of a member.
const maxSubscription = 100

// Membership is what a member of a group has.
type Membership struct {
	ID         string
	Generation int64
	// Ordered by topic and partition.
	Partitions []AssignedPartition
}

// AssignedPartition is a partition that a member reads.
type AssignedPartition struct {
	Topic     string
	Partition int32
}

// JoinGroup makes a member, or has the member of an id subscribe anew, and
// returns once that is on disk. A group that is nobody's becomes the caller's.
func (b *Backend) JoinGroup(ctx context.Context, caller grants.Caller, group, member string, topics []string) (Membership, error) {
	if err := checkGroup(group); err != nil {
		return Membership{}, err
	}
	if len(topics) == 0 || len(topics) > maxSubscription {
		return Membership{}, invalid("topics must be 1 to %d, got %d", maxSubscription, len(topics))
	}
	req := &coordinatorv1.JoinRequest{
		Caller: onBehalfOf(caller), Group: group, MemberId: member, TopicIds: make([][]byte, len(topics)),
	}
	for i, name := range topics {
		topic, err := b.readable(ctx, caller, name)
		if err != nil {
			return Membership{}, err
		}
		req.TopicIds[i] = topic.ID[:]
	}
	var resp *coordinatorv1.JoinResponse
	err := b.groups(ctx, func(ctx context.Context, c coordinatorv1.GroupServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.Join(ctx, req, opts...)
		return err
	})
	if err != nil {
		return Membership{}, err
	}
	return Membership{resp.GetMemberId(), resp.GetGeneration(), assignedOf(resp.GetAssignment())}, nil
}

// Heartbeat keeps a member in its group. It returns the group's generation and
// whether the group has the member.
func (b *Backend) Heartbeat(ctx context.Context, caller grants.Caller, group, member string) (generation int64, known bool, err error) {
	if err := checkGroup(group); err != nil {
		return 0, false, err
	}
	var resp *coordinatorv1.HeartbeatResponse
	err = b.groups(ctx, func(ctx context.Context, c coordinatorv1.GroupServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.Heartbeat(ctx, &coordinatorv1.HeartbeatRequest{
			Caller: onBehalfOf(caller), Group: group, MemberId: member,
		}, opts...)
		return err
	})
	return resp.GetGeneration(), !resp.GetUnknownMember(), err
}

// LeaveGroup takes a member out of its group; one that it does not have is out
// already.
func (b *Backend) LeaveGroup(ctx context.Context, caller grants.Caller, group, member string) error {
	if err := checkGroup(group); err != nil {
		return err
	}
	return b.groups(ctx, func(ctx context.Context, c coordinatorv1.GroupServiceClient, opts ...grpc.CallOption) error {
		_, err := c.Leave(ctx, &coordinatorv1.LeaveRequest{Caller: onBehalfOf(caller), Group: group, MemberId: member}, opts...)
		return err
	})
}

// DeleteGroup deletes a group that has no members, with its offsets, and returns
// once that is on disk.
func (b *Backend) DeleteGroup(ctx context.Context, caller grants.Caller, group string) error {
	if err := checkGroup(group); err != nil {
		return err
	}
	return b.groups(ctx, func(ctx context.Context, c coordinatorv1.GroupServiceClient, opts ...grpc.CallOption) error {
		_, err := c.DeleteGroup(ctx, &coordinatorv1.DeleteGroupRequest{Caller: onBehalfOf(caller), Group: group}, opts...)
		return err
	})
}

// Assignment returns what a member has.
func (b *Backend) Assignment(ctx context.Context, caller grants.Caller, group, member string) (Membership, error) {
	if err := checkGroup(group); err != nil {
		return Membership{}, err
	}
	var resp *coordinatorv1.GetAssignmentResponse
	err := b.groups(ctx, func(ctx context.Context, c coordinatorv1.GroupServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.GetAssignment(ctx, &coordinatorv1.GetAssignmentRequest{
			Caller: onBehalfOf(caller), Group: group, MemberId: member,
		}, opts...)
		return err
	})
	if err != nil {
		return Membership{}, err
	}
	return Membership{member, resp.GetGeneration(), assignedOf(resp.GetAssignment())}, nil
}

func assignedOf(list []*coordinatorv1.Assigned) []AssignedPartition {
	partitions := make([]AssignedPartition, len(list))
	for i, a := range list {
		partitions[i] = AssignedPartition{Topic: a.GetTopic(), Partition: a.GetPartition()}
	}
	slices.SortFunc(partitions, func(a, b AssignedPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return partitions
}

// groups calls the coordinator that has a group.
func (b *Backend) groups(ctx context.Context, do func(ctx context.Context, c coordinatorv1.GroupServiceClient, opts ...grpc.CallOption) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	return b.coordinators.call(ctx, func(conn grpc.ClientConnInterface, opts ...grpc.CallOption) error {
		return do(ctx, coordinatorv1.NewGroupServiceClient(conn), opts...)
	})
}
