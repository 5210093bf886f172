package clustertest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// Groups is GroupService: members get partitions in turn, and go only when they
// leave or a test evicts them.
type Groups struct {
	coordinatorv1.UnimplementedGroupServiceServer
	coordinator *Coordinator
	offsets     *offsets

	mu struct {
		sync.Mutex
		groups map[string]*memberGroup
		joins  int
		// blind is how many resets see to no shard.
		blind int
	}
}

type memberGroup struct {
	generation int64
	members    map[string][][]byte
}

func newGroups(c *Coordinator) *Groups {
	g := &Groups{coordinator: c, offsets: c.offsets}
	g.mu.groups = make(map[string]*memberGroup)
	return g
}

// BlindResets has the next resets see to no shard, as if another coordinator
// that does not answer yet owned them.
func (g *Groups) BlindResets(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.blind = n
}

// Evict takes a member out.
func (g *Groups) Evict(group, member string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.mu.groups[group].members, member)
	g.mu.groups[group].generation++
}

// Join makes a member.
func (g *Groups) Join(_ context.Context, req *coordinatorv1.JoinRequest) (*coordinatorv1.JoinResponse, error) {
	if err := g.offsets.claim(req.GetCaller(), req.GetGroup()); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	group := g.mu.groups[req.GetGroup()]
	if group == nil {
		group = &memberGroup{members: make(map[string][][]byte)}
		g.mu.groups[req.GetGroup()] = group
	}
	id := req.GetMemberId()
	if id == "" {
		g.mu.joins++
		id = fmt.Sprintf("m_%032x", g.mu.joins)
	}
	if !slices.EqualFunc(group.members[id], req.GetTopicIds(), bytes.Equal) {
		group.members[id] = req.GetTopicIds()
		group.generation++
	}
	return &coordinatorv1.JoinResponse{MemberId: id, Generation: group.generation, Assignment: g.shareLocked(group, id)}, nil
}

// shareLocked is a member's partitions, the last one first: callers put them in
// order.
func (g *Groups) shareLocked(group *memberGroup, member string) []*coordinatorv1.Assigned {
	var list []*coordinatorv1.Assigned
	turn := 0
	for _, name := range g.coordinator.names() {
		topic := g.coordinator.Topic(name)
		var subscribers []string
		for _, id := range slices.Sorted(maps.Keys(group.members)) {
			if slices.ContainsFunc(group.members[id], func(t []byte) bool { return bytes.Equal(t, topic.GetId()) }) {
				subscribers = append(subscribers, id)
			}
		}
		for p := range topic.GetPartitions() {
			if len(subscribers) > 0 && subscribers[turn%len(subscribers)] == member {
				list = append(list, &coordinatorv1.Assigned{TopicId: topic.GetId(), Topic: name, Partition: int32(p)})
			}
			turn++
		}
	}
	slices.Reverse(list)
	return list
}

// Heartbeat tells a member the generation.
func (g *Groups) Heartbeat(_ context.Context, req *coordinatorv1.HeartbeatRequest) (*coordinatorv1.HeartbeatResponse, error) {
	if err := g.offsets.check(req.GetCaller(), req.GetGroup()); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	group := g.mu.groups[req.GetGroup()]
	if group == nil {
		return &coordinatorv1.HeartbeatResponse{UnknownMember: true}, nil
	}
	return &coordinatorv1.HeartbeatResponse{UnknownMember: group.members[req.GetMemberId()] == nil, Generation: group.generation}, nil
}

// Leave takes a member out.
func (g *Groups) Leave(_ context.Context, req *coordinatorv1.LeaveRequest) (*coordinatorv1.LeaveResponse, error) {
	if err := g.offsets.check(req.GetCaller(), req.GetGroup()); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if group := g.mu.groups[req.GetGroup()]; group != nil && group.members[req.GetMemberId()] != nil {
		delete(group.members, req.GetMemberId())
		group.generation++
	}
	return &coordinatorv1.LeaveResponse{}, nil
}

// DeleteGroup forgets a group and its offsets. Generations begin anew, which tests of
// the gateway do not look at.
func (g *Groups) DeleteGroup(_ context.Context, req *coordinatorv1.DeleteGroupRequest) (*coordinatorv1.DeleteGroupResponse, error) {
	if err := g.offsets.check(req.GetCaller(), req.GetGroup()); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if group := g.mu.groups[req.GetGroup()]; group != nil && len(group.members) > 0 {
		return nil, errs.New(errs.Aborted, "GROUP_NOT_EMPTY", "the group %q has members", req.GetGroup())
	}
	delete(g.mu.groups, req.GetGroup())
	if !g.offsets.forget(req.GetGroup()) {
		return nil, errs.New(errs.NotFound, "GROUP_NOT_FOUND", "the group %q does not exist", req.GetGroup())
	}
	return &coordinatorv1.DeleteGroupResponse{}, nil
}

// GetAssignment returns a member's partitions.
func (g *Groups) GetAssignment(_ context.Context, req *coordinatorv1.GetAssignmentRequest) (*coordinatorv1.GetAssignmentResponse, error) {
	if err := g.offsets.check(req.GetCaller(), req.GetGroup()); err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	group := g.mu.groups[req.GetGroup()]
	if group == nil || group.members[req.GetMemberId()] == nil {
		return nil, errs.New(errs.NotFound, "UNKNOWN_MEMBER", "the group %q has no member %q", req.GetGroup(), req.GetMemberId())
	}
	return &coordinatorv1.GetAssignmentResponse{Generation: group.generation, Assignment: g.shareLocked(group, req.GetMemberId())}, nil
}

// ResetOffsets sees to one shard a call; all groups are in the second.
func (g *Groups) ResetOffsets(_ context.Context, req *coordinatorv1.ResetOffsetsRequest) (*coordinatorv1.ResetOffsetsResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	resp := &coordinatorv1.ResetOffsetsResponse{ShardCount: 2}
	switch {
	case g.mu.blind > 0:
		g.mu.blind--
	case !slices.Contains(req.GetExceptShards(), 0):
		resp.Shards = []int32{0}
	default:
		resp.Shards = []int32{1}
		resp.GroupsAffected, resp.EntriesReset = g.offsets.reset(string(req.GetTopicId()), req.GetOffsets())
	}
	return resp, nil
}
