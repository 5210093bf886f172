// Package picture is what a gateway knows of the cluster: topics, where their
// partitions are, who leads them, and which nodes there are.
//
// A Picture is immutable. The Watcher follows the coordinator's WatchMetadata
// and puts a new one in the place of the old with each change, so a request
// looks things up without a lock and without a call, in one consistent state.
package picture

import (
	"maps"
	"slices"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
)

// TopicID is the UUID of a topic.
type TopicID [16]byte

// Picture is the cluster at one moment.
type Picture struct {
	// Revision of etcd that this picture has reached. It may go back when
	// another coordinator, which is behind, takes over the stream.
	Revision int64

	names  map[string]TopicID
	topics map[TopicID]*Topic
	nodes  map[string]*coordinatorv1.Node

	// Closed when another picture has taken this one's place.
	superseded chan struct{}
}

// Topic is a topic at one moment.
type Topic struct {
	ID       TopicID
	Name     string
	Internal bool
	// Config as the cluster keeps it, under Kafka's names; only what was set.
	Config map[string]string
	// One for each partition, in order.
	Partitions []Partition
}

// Partition is where a partition is.
type Partition struct {
	// Replicas are the ids of the nodes that have one, the preferred leader
	// first. There is at least one.
	Replicas []string
	// Leader is the id of the node that leads; empty when nobody is known to.
	// A partition that was never written to has no leader yet.
	Leader string
	// Epoch is the leader's term, -1 while there was none.
	Epoch int32
}

func empty() *Picture {
	return &Picture{
		names:      map[string]TopicID{},
		topics:     map[TopicID]*Topic{},
		nodes:      map[string]*coordinatorv1.Node{},
		superseded: make(chan struct{}),
	}
}

// Topic returns the topic of a name, or nil.
func (p *Picture) Topic(name string) *Topic { return p.topics[p.names[name]] }

// TopicByID returns the topic of an id, or nil.
func (p *Picture) TopicByID(id TopicID) *Topic { return p.topics[id] }

// Topics returns all topics, internal ones too, sorted by name.
func (p *Picture) Topics() []*Topic {
	topics := make([]*Topic, 0, len(p.topics))
	for _, name := range slices.Sorted(maps.Keys(p.names)) {
		topics = append(topics, p.topics[p.names[name]])
	}
	return topics
}

// Address returns the address of a node's internal gRPC, empty when the node is
// not there.
func (p *Picture) Address(node string) string { return p.nodes[node].GetAddress() }

// WithRole returns the ids of the nodes that have a role, sorted.
func (p *Picture) WithRole(role string) []string {
	var ids []string
	for id, node := range p.nodes {
		if slices.Contains(node.GetRoles(), role) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Superseded returns a channel that is closed when there is a newer picture.
func (p *Picture) Superseded() <-chan struct{} { return p.superseded }

// apply returns the picture after a change.
func (p *Picture) apply(change *coordinatorv1.WatchMetadataResponse) *Picture {
	next := empty()
	if !change.GetSnapshot() {
		next.names, next.topics, next.nodes = p.names, p.topics, p.nodes
	}
	next.Revision = change.GetRevision()

	if len(change.GetTopics()) > 0 || len(change.GetRemovedTopicIds()) > 0 || len(change.GetLeaders()) > 0 {
		next.topics = maps.Clone(next.topics)
	}
	if len(change.GetTopics()) > 0 || len(change.GetRemovedTopicIds()) > 0 {
		next.names = maps.Clone(next.names)
	}
	for _, id := range change.GetRemovedTopicIds() {
		next.remove(topicID(id))
	}
	for _, topic := range change.GetTopics() {
		next.put(topic)
	}
	for _, leaders := range change.GetLeaders() {
		next.lead(leaders)
	}

	if len(change.GetNodes()) > 0 || len(change.GetRemovedNodes()) > 0 {
		next.nodes = maps.Clone(next.nodes)
	}
	for _, id := range change.GetRemovedNodes() {
		delete(next.nodes, id)
	}
	for _, node := range change.GetNodes() {
		next.nodes[node.GetId()] = node
	}
	return next
}

func (p *Picture) remove(id TopicID) {
	topic := p.topics[id]
	if topic == nil {
		return
	}
	delete(p.topics, id)
	// The name may be another topic's by now.
	if p.names[topic.Name] == id {
		delete(p.names, topic.Name)
	}
}

func (p *Picture) put(t *coordinatorv1.Topic) {
	topic := &Topic{
		ID:         topicID(t.GetId()),
		Name:       t.GetName(),
		Internal:   t.GetInternal(),
		Config:     t.GetConfig(),
		Partitions: make([]Partition, len(t.GetPartitions())),
	}
	known := p.topics[topic.ID]
	for i, assignment := range t.GetPartitions() {
		topic.Partitions[i] = Partition{Replicas: assignment.GetNodes(), Epoch: -1}
		if known != nil && i < len(known.Partitions) {
			topic.Partitions[i].Leader = known.Partitions[i].Leader
			topic.Partitions[i].Epoch = known.Partitions[i].Epoch
		}
	}
	p.topics[topic.ID] = topic
	p.names[topic.Name] = topic.ID
}

func (p *Picture) lead(l *coordinatorv1.TopicLeaders) {
	known := p.topics[topicID(l.GetTopicId())]
	if known == nil || len(l.GetLeaders()) < len(l.GetPartitions()) || len(l.GetEpochs()) < len(l.GetPartitions()) {
		return
	}
	topic := *known
	topic.Partitions = slices.Clone(known.Partitions)
	for i, partition := range l.GetPartitions() {
		if partition < 0 || int(partition) >= len(topic.Partitions) {
			continue
		}
		topic.Partitions[partition].Leader = l.GetLeaders()[i]
		topic.Partitions[partition].Epoch = l.GetEpochs()[i]
	}
	p.topics[topic.ID] = &topic
}

func topicID(b []byte) (id TopicID) {
	copy(id[:], b)
	return id
}
