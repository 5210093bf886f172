// Package storagetest is storage nodes without disks: they keep batches in
// memory, hold to the rules of leaders and fences, and fail when told to.
//
// Nodes of one Cluster share their partitions, as replicas share a log: what
// differs between them is what they were told to hold and who leads.
package storagetest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// ErrDown is what a node answers that is down.
var ErrDown = errs.New(errs.Unavailable, "DOWN", "the node is down")

// Fault is what becomes of one append.
type Fault int

const (
	// None serves the append.
	None Fault = iota
	// Refuse writes nothing, and says so.
	Refuse
	// LoseAnswer writes the batch and answers that nobody knows.
	LoseAnswer
	// LoseRequest writes nothing and answers that nobody knows.
	LoseRequest
	// Late answers that nobody knows, and writes the batch when Deliver is
	// called, if no fence is in the way by then.
	Late
)

// Key names a partition.
type Key struct {
	Topic     [16]byte
	Partition int32
}

// Cluster is nodes that share partitions.
type Cluster struct {
	mu         sync.Mutex
	partitions map[Key]*partition
	late       []func()
	onAppend   func(Key, int64) Fault
	nodes      map[string]*Node
}

// partition is a log; appends and fences are committed at once.
type partition struct {
	leader string // empty: none
	epoch  int32
	// fence is the highest owner epoch.
	fence   int64
	batches [][]byte
	next    int64
}

// NewCluster returns a cluster without nodes.
func NewCluster() *Cluster {
	return &Cluster{partitions: make(map[Key]*partition), nodes: make(map[string]*Node)}
}

// OnAppend sets what decides on the fault of each append of an owner.
func (c *Cluster) OnAppend(f func(key Key, epoch int64) Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onAppend = f
}

// Deliver has appends and placements arrive that were late.
func (c *Cluster) Deliver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	late := c.late
	c.late = nil
	for _, arrive := range late {
		arrive()
	}
}

// Lead makes a node the leader of a partition, or nobody.
func (c *Cluster) Lead(key Key, node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.partitionLocked(key)
	p.leader = node
	p.epoch++
	for _, n := range c.nodes {
		n.changedLocked(key)
	}
}

func (c *Cluster) partitionLocked(key Key) *partition {
	p := c.partitions[key]
	if p == nil {
		p = &partition{}
		c.partitions[key] = p
	}
	return p
}

// End returns the offset after a partition's last record.
func (c *Cluster) End(key Key) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.partitionLocked(key).next
}

// Node is one storage node.
type Node struct {
	storagev1.UnimplementedStorageServiceServer
	storagev1.UnimplementedReplicaServiceServer

	id      string
	cluster *Cluster

	// Fields below are guarded by the cluster's lock.

	down bool
	// held keeps the next placement of the topic heldTopic until it is closed; nil
	// when none is kept.
	held      chan struct{}
	heldTopic string

	topics  map[[16]byte]*storagev1.PlaceReplicasRequest_TopicPlacement
	placed  int // calls of PlaceReplicas
	removed [][16]byte
	watches map[*watch]bool
}

// watch is one stream of reports.
type watch struct {
	pending map[Key]bool
	wake    chan struct{}
	cut     chan struct{}
}

// Node adds a node.
func (c *Cluster) Node(id string) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &Node{
		id: id, cluster: c, watches: make(map[*watch]bool),
		topics: make(map[[16]byte]*storagev1.PlaceReplicasRequest_TopicPlacement),
	}
	c.nodes[id] = n
	return n
}

// Register adds the node's services to a server.
func (n *Node) Register(r grpc.ServiceRegistrar) {
	storagev1.RegisterStorageServiceServer(r, n)
	storagev1.RegisterReplicaServiceServer(r, n)
}

// SetDown has all calls fail, or succeed again. Going down cuts streams.
func (n *Node) SetDown(down bool) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.down = down
	if down {
		for w := range n.watches {
			close(w.cut)
			delete(n.watches, w)
		}
	}
}

// HoldNext keeps the next placement of a topic on its way until release is called.
// If its caller gives up before, it arrives when Deliver is called.
func (n *Node) HoldNext(topic string) (release func()) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	held := make(chan struct{})
	n.held, n.heldTopic = held, topic
	return sync.OnceFunc(func() { close(held) })
}

// Holds tells that the placement that HoldNext is about has not come yet.
func (n *Node) Holds() bool {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	return n.held != nil
}

func (n *Node) isHeld(t *storagev1.PlaceReplicasRequest_TopicPlacement) bool {
	return t.Name == n.heldTopic
}

// Topics returns what the node holds, by topic name.
func (n *Node) Topics() map[string]*storagev1.PlaceReplicasRequest_TopicPlacement {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	byName := make(map[string]*storagev1.PlaceReplicasRequest_TopicPlacement)
	for _, t := range n.topics {
		byName[t.Name] = t
	}
	return byName
}

// Removed returns the ids of topics that the node was told to remove.
func (n *Node) Removed() [][16]byte {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	return slices.Clone(n.removed)
}

// PlaceReplicas notes replicas. The first voter of a new partition leads it.
func (n *Node) PlaceReplicas(ctx context.Context, req *storagev1.PlaceReplicasRequest) (*storagev1.PlaceReplicasResponse, error) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.placed++
	if held := n.held; held != nil && slices.ContainsFunc(req.Topics, n.isHeld) {
		n.held = nil
		n.cluster.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
		}
		n.cluster.mu.Lock()
		if ctx.Err() != nil {
			n.cluster.late = append(n.cluster.late, func() { n.placeLocked(req) })
			return nil, ctx.Err()
		}
	}
	if n.down {
		return nil, ErrDown
	}
	return n.placeLocked(req), nil
}

func (n *Node) placeLocked(req *storagev1.PlaceReplicasRequest) *storagev1.PlaceReplicasResponse {
	resp := &storagev1.PlaceReplicasResponse{}
	for _, t := range req.Topics {
		id := [16]byte(t.TopicId)
		if slices.Contains(n.removed, id) {
			resp.RemovedTopicIds = append(resp.RemovedTopicIds, id[:])
			continue
		}
		if old := n.topics[id]; old != nil && old.ConfigVersion > t.ConfigVersion {
			continue
		}
		n.topics[id] = proto.CloneOf(t)
		for _, p := range t.Partitions {
			key := Key{id, p.Partition}
			part := n.cluster.partitionLocked(key)
			if part.epoch == 0 && p.Voters[0].Node == n.id {
				part.leader, part.epoch = n.id, 1
			}
			n.changedLocked(key)
		}
	}
	return resp
}

// RemoveReplicas forgets topics.
func (n *Node) RemoveReplicas(_ context.Context, req *storagev1.RemoveReplicasRequest) (*storagev1.RemoveReplicasResponse, error) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if n.down {
		return nil, ErrDown
	}
	for _, t := range req.TopicIds {
		id := [16]byte(t)
		if held := n.topics[id]; held != nil && held.ConfigVersion >= req.Revision {
			return nil, errs.New(errs.InvalidArgument, "BAD_REVISION", "revision %d is not after %d", req.Revision, held.ConfigVersion)
		}
		n.removed = append(n.removed, id)
		delete(n.topics, id)
	}
	return &storagev1.RemoveReplicasResponse{}, nil
}

// lead returns a partition that the node leads, or why it does not.
func (n *Node) leadLocked(p *storagev1.Partition) (*partition, *storagev1.PartitionError) {
	key := Key{[16]byte(p.TopicId), p.Partition}
	if n.topics[key.Topic] == nil {
		return nil, &storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION}
	}
	part := n.cluster.partitionLocked(key)
	switch part.leader {
	case n.id:
		return part, nil
	case "":
		return nil, &storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE}
	}
	return nil, &storagev1.PartitionError{
		Code:   storagev1.ErrorCode_ERROR_CODE_NOT_LEADER,
		Leader: &storagev1.LeaderHint{Node: part.leader, Epoch: part.epoch},
	}
}

// Fence raises a partition's owner epoch.
func (n *Node) Fence(_ context.Context, req *storagev1.FenceRequest) (*storagev1.FenceResponse, error) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if n.down {
		return nil, ErrDown
	}
	p, e := n.leadLocked(req.Partition)
	if e != nil {
		return &storagev1.FenceResponse{Error: e}, nil
	}
	if req.OwnerEpoch < p.fence {
		return &storagev1.FenceResponse{Error: &storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_FENCED_OWNER}}, nil
	}
	p.fence = req.OwnerEpoch
	return &storagev1.FenceResponse{LogEndOffset: p.next}, nil
}

// Append writes batches under an owner's epoch.
func (n *Node) Append(_ context.Context, req *storagev1.AppendRequest) (*storagev1.AppendResponse, error) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if n.down {
		return nil, ErrDown
	}
	resp := &storagev1.AppendResponse{}
	for _, a := range req.Appends {
		resp.Appended = append(resp.Appended, &storagev1.AppendResponse_PartitionAppended{Error: n.appendLocked(a)})
	}
	return resp, nil
}

func (n *Node) appendLocked(a *storagev1.AppendRequest_PartitionAppend) *storagev1.PartitionError {
	p, e := n.leadLocked(a.Partition)
	if e != nil {
		return e
	}
	unknown := &storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME}
	fault := None
	if n.cluster.onAppend != nil {
		fault = n.cluster.onAppend(Key{[16]byte(a.Partition.TopicId), a.Partition.Partition}, a.GetOwnerEpoch())
	}
	switch fault {
	case Refuse:
		return &storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_INVALID_RECORD, Message: "told to"}
	case LoseRequest:
		return unknown
	case Late:
		n.cluster.late = append(n.cluster.late, func() { _ = p.write(a) })
		return unknown
	case LoseAnswer:
		_ = p.write(a)
		return unknown
	}
	return p.write(a)
}

func (p *partition) write(a *storagev1.AppendRequest_PartitionAppend) *storagev1.PartitionError {
	if a.OwnerEpoch == nil || *a.OwnerEpoch < p.fence {
		return &storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_FENCED_OWNER}
	}
	batch := slices.Clone(a.Batches)
	h, err := recordbatch.ParseHeader(batch)
	if err != nil || h.Size() != len(batch) || h.BaseOffset != 0 {
		return &storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_CORRUPT_MESSAGE}
	}
	h.BaseOffset, h.LeaderEpoch = p.next, p.epoch
	recordbatch.PutHeader(batch, h)
	p.batches = append(p.batches, batch)
	p.next = h.NextOffset()
	return nil
}

// Fetch reads one batch at a time, to have readers go on.
func (n *Node) Fetch(_ context.Context, req *storagev1.FetchRequest) (*storagev1.FetchResponse, error) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if n.down {
		return nil, ErrDown
	}
	resp := &storagev1.FetchResponse{}
	for _, f := range req.Fetches {
		p, e := n.leadLocked(f.Partition)
		if e != nil {
			resp.Fetched = append(resp.Fetched, &storagev1.FetchResponse_PartitionFetched{Error: e})
			continue
		}
		fetched := &storagev1.FetchResponse_PartitionFetched{HighWatermark: p.next, NextOffset: f.Offset}
		for _, b := range p.batches {
			if h, _ := recordbatch.ParseHeader(b); h.LastOffset() >= f.Offset {
				fetched.Batches, fetched.NextOffset = b, h.NextOffset()
				break
			}
		}
		resp.Fetched = append(resp.Fetched, fetched)
	}
	return resp, nil
}

// WatchReplicas reports until the caller hangs up or the node goes down.
func (n *Node) WatchReplicas(_ *storagev1.WatchReplicasRequest, stream grpc.ServerStreamingServer[storagev1.WatchReplicasResponse]) error {
	n.cluster.mu.Lock()
	if n.down {
		n.cluster.mu.Unlock()
		return ErrDown
	}
	w := &watch{pending: make(map[Key]bool), wake: make(chan struct{}, 1), cut: make(chan struct{})}
	n.watches[w] = true
	for id, t := range n.topics {
		for _, p := range t.Partitions {
			w.pending[Key{id, p.Partition}] = true
		}
	}
	n.cluster.mu.Unlock()
	defer func() {
		n.cluster.mu.Lock()
		delete(n.watches, w)
		n.cluster.mu.Unlock()
	}()
	for first := true; ; first = false {
		message := n.take(w)
		message.SnapshotDone = first
		if err := stream.Send(message); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-w.cut:
			return ErrDown
		case <-w.wake:
		}
	}
}

func (n *Node) take(w *watch) *storagev1.WatchReplicasResponse {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	reports := make(map[[16]byte]*storagev1.WatchReplicasResponse_TopicReport)
	for key := range w.pending {
		r := reports[key.Topic]
		if r == nil {
			r = &storagev1.WatchReplicasResponse_TopicReport{TopicId: key.Topic[:]}
			reports[key.Topic] = r
		}
		p := n.cluster.partitionLocked(key)
		r.Partitions = append(r.Partitions, key.Partition)
		r.Leads = append(r.Leads, p.leader == n.id)
		r.Epochs = append(r.Epochs, p.epoch)
		r.Damaged = append(r.Damaged, false)
	}
	w.pending = make(map[Key]bool)
	return &storagev1.WatchReplicasResponse{Topics: slices.Collect(maps.Values(reports))}
}

func (n *Node) changedLocked(key Key) {
	if n.topics[key.Topic] == nil {
		return
	}
	for w := range n.watches {
		w.pending[key] = true
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}
