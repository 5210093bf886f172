package clustertest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// Coordinator keeps topics, groups and committed offsets in memory.
type Coordinator struct {
	coordinatorv1.UnimplementedMetadataServiceServer
	Groups  *Groups
	offsets *offsets

	mu struct {
		sync.Mutex
		nodes []*coordinatorv1.Node
		// away are nodes that are not there, with the topics that only they have.
		away     map[string][]string
		topics   map[string]*coordinatorv1.Topic
		revision int64
		// One for each open stream; a change goes to all.
		streams map[chan *coordinatorv1.WatchMetadataResponse]bool
		// Changes that streams do not get before Release.
		held   []*coordinatorv1.WatchMetadataResponse
		hold   bool
		fail   []error
		lookUp int
	}
}

func newCoordinator(nodes []string) *Coordinator {
	c := &Coordinator{offsets: &offsets{}}
	c.Groups = newGroups(c)
	c.mu.topics = make(map[string]*coordinatorv1.Topic)
	c.mu.streams = make(map[chan *coordinatorv1.WatchMetadataResponse]bool)
	c.mu.revision = 1
	for _, node := range nodes {
		c.mu.nodes = append(c.mu.nodes, &coordinatorv1.Node{Id: node, Roles: []string{"storage"}})
	}
	return c
}

// FailNext makes the next calls of MetadataService fail, one error each.
func (c *Coordinator) FailNext(failures ...error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.fail = append(c.mu.fail, failures...)
}

// Hold keeps changes from the streams, as if they were slow, until Release.
func (c *Coordinator) Hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.hold = true
}

// Release sends what Hold kept.
func (c *Coordinator) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.hold = false
	for _, change := range c.mu.held {
		c.sendLocked(change)
	}
	c.mu.held = nil
}

// LookUps returns how often DescribeTopic was called.
func (c *Coordinator) LookUps() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.lookUp
}

// SetLeader tells the gateways who leads a partition.
func (c *Coordinator) SetLeader(topic string, partition int32, node string, epoch int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	leaders := &coordinatorv1.TopicLeaders{
		TopicId: c.mu.topics[topic].GetId(), Partitions: []int32{partition}, Leaders: []string{node}, Epochs: []int32{epoch},
	}
	c.sendLocked(&coordinatorv1.WatchMetadataResponse{Leaders: []*coordinatorv1.TopicLeaders{leaders}})
}

// AddInternal makes a topic of the system's own.
func (c *Coordinator) AddInternal(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	topic := c.addLocked(&coordinatorv1.CreateTopicRequest{Name: name, Partitions: 1})
	topic.Internal = true
	c.sendLocked(&coordinatorv1.WatchMetadataResponse{Topics: []*coordinatorv1.Topic{proto.CloneOf(topic)}})
}

// Topic returns a topic.
func (c *Coordinator) Topic(name string) *coordinatorv1.Topic {
	c.mu.Lock()
	defer c.mu.Unlock()
	return proto.CloneOf(c.mu.topics[name])
}

// names are those of all topics, sorted.
func (c *Coordinator) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.mu.topics))
}

func (c *Coordinator) sendLocked(change *coordinatorv1.WatchMetadataResponse) {
	if change.Revision == 0 {
		c.mu.revision++
		change.Revision = c.mu.revision
	}
	if c.mu.hold {
		c.mu.held = append(c.mu.held, change)
		return
	}
	for stream := range c.mu.streams {
		stream <- change
	}
}

func (c *Coordinator) failLocked() error {
	if len(c.mu.fail) == 0 {
		return nil
	}
	err := c.mu.fail[0]
	c.mu.fail = c.mu.fail[1:]
	return err
}

func (c *Coordinator) addLocked(req *coordinatorv1.CreateTopicRequest) *coordinatorv1.Topic {
	id := uuid.New()
	topic := &coordinatorv1.Topic{Id: id[:], Name: req.GetName(), Config: req.GetConfig()}
	for i := range req.GetPartitions() {
		node := c.mu.nodes[int(i)%len(c.mu.nodes)].GetId()
		topic.Partitions = append(topic.Partitions, &coordinatorv1.Assignment{Nodes: []string{node}, ReplicaIds: []uint64{1}})
	}
	c.mu.topics[topic.Name] = topic
	return topic
}

// CreateTopic makes a topic, its partitions spread over the nodes in turn.
func (c *Coordinator) CreateTopic(_ context.Context, req *coordinatorv1.CreateTopicRequest) (*coordinatorv1.CreateTopicResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.failLocked(); err != nil {
		return nil, err
	}
	if c.mu.topics[req.GetName()] != nil {
		return nil, errs.New(errs.AlreadyExists, "TOPIC_EXISTS", "topic %q exists", req.GetName())
	}
	if req.GetReplicationFactor() > int32(len(c.mu.nodes)) {
		return nil, errs.New(errs.FailedPrecondition, "TOO_FEW_NODES", "there are %d nodes for %d replicas", len(c.mu.nodes), req.GetReplicationFactor())
	}
	if err := checkConfig(req.GetConfig()); err != nil {
		return nil, err
	}
	topic := proto.CloneOf(c.addLocked(req))
	c.sendLocked(&coordinatorv1.WatchMetadataResponse{Topics: []*coordinatorv1.Topic{topic}})
	return &coordinatorv1.CreateTopicResponse{Topic: topic, Revision: c.mu.revision}, nil
}

// checkConfig knows as much of configs as tests need.
func checkConfig(config map[string]string) error {
	if value, ok := config["cleanup.policy"]; ok && value != "delete" && value != "compact" && value != "compact,delete" {
		return errs.New(errs.InvalidArgument, "INVALID_CONFIG", "config cleanup.policy: %q is no policy", value)
	}
	return nil
}

// DescribeTopic returns a topic.
func (c *Coordinator) DescribeTopic(_ context.Context, req *coordinatorv1.DescribeTopicRequest) (*coordinatorv1.DescribeTopicResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.lookUp++
	if err := c.failLocked(); err != nil {
		return nil, err
	}
	topic := c.mu.topics[req.GetName()]
	if topic == nil {
		return nil, notFound(req.GetName())
	}
	return &coordinatorv1.DescribeTopicResponse{Topic: proto.CloneOf(topic), Revision: c.mu.revision}, nil
}

// UpdateTopicConfig sets configs.
func (c *Coordinator) UpdateTopicConfig(_ context.Context, req *coordinatorv1.UpdateTopicConfigRequest) (*coordinatorv1.UpdateTopicConfigResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.failLocked(); err != nil {
		return nil, err
	}
	topic := c.mu.topics[req.GetName()]
	if topic == nil {
		return nil, notFound(req.GetName())
	}
	if err := checkConfig(req.GetSet()); err != nil {
		return nil, err
	}
	topic = proto.CloneOf(topic)
	if topic.Config == nil {
		topic.Config = make(map[string]string)
	}
	maps.Copy(topic.Config, req.GetSet())
	c.mu.topics[req.GetName()] = topic
	c.sendLocked(&coordinatorv1.WatchMetadataResponse{Topics: []*coordinatorv1.Topic{proto.CloneOf(topic)}})
	return &coordinatorv1.UpdateTopicConfigResponse{Topic: proto.CloneOf(topic), Revision: c.mu.revision}, nil
}

// DeleteTopic deletes a topic.
func (c *Coordinator) DeleteTopic(_ context.Context, req *coordinatorv1.DeleteTopicRequest) (*coordinatorv1.DeleteTopicResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.failLocked(); err != nil {
		return nil, err
	}
	topic := c.mu.topics[req.GetName()]
	if topic == nil {
		return nil, notFound(req.GetName())
	}
	delete(c.mu.topics, req.GetName())
	c.sendLocked(&coordinatorv1.WatchMetadataResponse{RemovedTopicIds: [][]byte{topic.GetId()}})
	return &coordinatorv1.DeleteTopicResponse{Topic: proto.CloneOf(topic), Revision: c.mu.revision}, nil
}

// WatchMetadata streams the picture.
func (c *Coordinator) WatchMetadata(_ *coordinatorv1.WatchMetadataRequest, out grpc.ServerStreamingServer[coordinatorv1.WatchMetadataResponse]) error {
	changes := make(chan *coordinatorv1.WatchMetadataResponse, 1000)
	c.mu.Lock()
	first := &coordinatorv1.WatchMetadataResponse{Snapshot: true, Revision: c.mu.revision, Nodes: c.mu.nodes}
	for _, topic := range c.mu.topics {
		first.Topics = append(first.Topics, proto.CloneOf(topic))
	}
	c.mu.streams[changes] = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.mu.streams, changes)
	}()
	if err := out.Send(first); err != nil {
		return err
	}
	for {
		select {
		case change := <-changes:
			if err := out.Send(change); err != nil {
				return err
			}
		case <-out.Context().Done():
			return out.Context().Err()
		}
	}
}

func notFound(topic string) error {
	return errs.New(errs.NotFound, "TOPIC_NOT_FOUND", "topic %q does not exist", topic)
}

// Stale is a member whose partitions are another's.
const Stale = "m_stale"

// offsets is OffsetService.
type offsets struct {
	coordinatorv1.UnimplementedOffsetServiceServer

	mu struct {
		sync.Mutex
		groups map[string]map[offsetKey]*coordinatorv1.CommittedOffset
		// owners of groups by name.
		owners map[string]string
	}
}

// check refuses the group of another.
func (o *offsets) check(caller *coordinatorv1.Caller, group string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.checkLocked(caller, group)
}

func (o *offsets) checkLocked(caller *coordinatorv1.Caller, group string) error {
	if caller.GetOwner() == "" {
		return errs.New(errs.InvalidArgument, "NO_CALLER", "no caller")
	}
	if owner := o.mu.owners[group]; owner != "" && owner != caller.GetOwner() && !caller.GetAdmin() {
		return errs.New(errs.PermissionDenied, "GROUP_OF_ANOTHER_KEY", "the group %q belongs to another key", group)
	}
	return nil
}

// claim makes a group the caller's, if it is nobody's.
func (o *offsets) claim(caller *coordinatorv1.Caller, group string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.claimLocked(caller, group)
}

func (o *offsets) claimLocked(caller *coordinatorv1.Caller, group string) error {
	if err := o.checkLocked(caller, group); err != nil {
		return err
	}
	if o.mu.owners == nil {
		o.mu.owners = make(map[string]string)
	}
	if o.mu.owners[group] == "" {
		o.mu.owners[group] = caller.GetOwner()
	}
	return nil
}

// forget drops a group's owner and offsets, and says whether it had an owner.
func (o *offsets) forget(group string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.mu.owners[group] != ""
	delete(o.mu.owners, group)
	delete(o.mu.groups, group)
	return known
}

// reset moves all offsets on a topic.
func (o *offsets) reset(topic string, to []int64) (groups, entries int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, offsets := range o.mu.groups {
		before := entries
		for key, c := range offsets {
			if key.topic == topic {
				c.Offset = to[key.partition]
				entries++
			}
		}
		if entries > before {
			groups++
		}
	}
	return groups, entries
}

type offsetKey struct {
	topic     string
	partition int32
}

// CommitOffsets stores offsets.
func (o *offsets) CommitOffsets(_ context.Context, req *coordinatorv1.CommitOffsetsRequest) (*coordinatorv1.CommitOffsetsResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.claimLocked(req.GetCaller(), req.GetGroup()); err != nil {
		return nil, err
	}
	if req.GetMemberId() == Stale {
		return nil, errs.New(errs.Aborted, "STALE_MEMBER", "generation %d is over", req.GetGeneration())
	}
	if o.mu.groups == nil {
		o.mu.groups = make(map[string]map[offsetKey]*coordinatorv1.CommittedOffset)
	}
	if o.mu.groups[req.GetGroup()] == nil {
		o.mu.groups[req.GetGroup()] = make(map[offsetKey]*coordinatorv1.CommittedOffset)
	}
	for _, c := range req.GetOffsets() {
		o.mu.groups[req.GetGroup()][offsetKey{string(c.GetTopicId()), c.GetPartition()}] = proto.CloneOf(c)
	}
	return &coordinatorv1.CommitOffsetsResponse{}, nil
}

// FetchOffsets returns a group's offsets.
func (o *offsets) FetchOffsets(_ context.Context, req *coordinatorv1.FetchOffsetsRequest) (*coordinatorv1.FetchOffsetsResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.checkLocked(req.GetCaller(), req.GetGroup()); err != nil {
		return nil, err
	}
	return &coordinatorv1.FetchOffsetsResponse{Offsets: o.listLocked(req.GetGroup(), req.GetTopicIds())}, nil
}

// ListOffsets returns the offsets of all groups.
func (o *offsets) ListOffsets(context.Context, *coordinatorv1.ListOffsetsRequest) (*coordinatorv1.ListOffsetsResponse, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	resp := &coordinatorv1.ListOffsetsResponse{}
	for group := range o.mu.groups {
		resp.Groups = append(resp.Groups, &coordinatorv1.ListOffsetsResponse_GroupOffsets{Group: group, Owner: o.mu.owners[group], Offsets: o.listLocked(group, nil)})
	}
	return resp, nil
}

func (o *offsets) listLocked(group string, topics [][]byte) []*coordinatorv1.CommittedOffset {
	var list []*coordinatorv1.CommittedOffset
	for key, c := range o.mu.groups[group] {
		wanted := slices.ContainsFunc(topics, func(id []byte) bool { return string(id) == key.topic })
		if len(topics) == 0 || wanted {
			list = append(list, proto.CloneOf(c))
		}
	}
	slices.SortFunc(list, func(a, b *coordinatorv1.CommittedOffset) int {
		return cmp.Or(cmp.Compare(string(a.GetTopicId()), string(b.GetTopicId())), cmp.Compare(a.GetPartition(), b.GetPartition()))
	})
	return list
}
