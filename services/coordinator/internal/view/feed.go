package view

import (
	"cmp"
	"context"
	"slices"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
)

// Feed is one follower's way through the changes. It holds no queue: only how
// far the follower has come.
type Feed struct {
	view *View
	// began is false until the first snapshot is out.
	began bool
	// seen is the number of the next change that the follower does not know.
	seen     uint64
	revision int64
}

// Feed returns a feed that begins with a snapshot.
func (v *View) Feed() *Feed { return &Feed{view: v} }

// Next waits until there is something new and returns it: first the whole
// picture, then all changes since the last message, coalesced. A receiver that
// has seen a revision knows every topic as of that revision. Parts of the
// message are shared and must not be changed.
func (f *Feed) Next(ctx context.Context) (*coordinatorv1.WatchMetadataResponse, error) {
	for {
		m, changed := f.take()
		if m != nil {
			return m, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

// take returns what is new, or what to wait for.
func (f *Feed) take() (*coordinatorv1.WatchMetadataResponse, <-chan struct{}) {
	v := f.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.mu.revision == 0 {
		return nil, v.mu.changed
	}
	if f.began && f.seen == v.mu.changes.next && f.revision == v.mu.revision {
		return nil, v.mu.changed
	}
	changes, complete := v.mu.changes.since(f.seen)
	var m *coordinatorv1.WatchMetadataResponse
	if f.began && complete {
		m = v.deltaLocked(changes)
	} else {
		m = v.snapshotLocked()
	}
	f.began, f.seen, f.revision = true, v.mu.changes.next, v.mu.revision
	m.Revision = f.revision
	return m, nil
}

func (v *View) snapshotLocked() *coordinatorv1.WatchMetadataResponse {
	m := &coordinatorv1.WatchMetadataResponse{Snapshot: true}
	for id, t := range v.mu.byID {
		m.Topics = append(m.Topics, t)
		if l := v.mu.leaders[id]; l != nil {
			m.Leaders = append(m.Leaders, l.message(id, l.all()))
		}
	}
	for _, n := range v.mu.nodes {
		m.Nodes = append(m.Nodes, n.Node)
	}
	m.Shards = v.shardsLocked()
	return m
}

func (v *View) deltaLocked(changes []change) *coordinatorv1.WatchMetadataResponse {
	m := &coordinatorv1.WatchMetadataResponse{}
	topics := make(map[rows.TopicID]bool)
	nodes := make(map[string]bool)
	partitions := make(map[rows.TopicID][]int32)
	shards := false
	for _, c := range changes {
		switch c.kind {
		case topicChanged:
			topics[c.topic] = true
		case nodeChanged:
			nodes[c.node] = true
		case leadersChanged:
			partitions[c.topic] = append(partitions[c.topic], c.partitions...)
		case shardsChanged:
			shards = true
		}
	}
	for id := range topics {
		if t := v.mu.byID[id]; t != nil {
			m.Topics = append(m.Topics, t)
		} else {
			m.RemovedTopicIds = append(m.RemovedTopicIds, id[:])
		}
	}
	for id := range nodes {
		if n, ok := v.mu.nodes[id]; ok {
			m.Nodes = append(m.Nodes, n.Node)
		} else {
			m.RemovedNodes = append(m.RemovedNodes, id)
		}
	}
	for id, list := range partitions {
		l := v.mu.leaders[id]
		if l == nil || v.mu.byID[id] == nil || len(list) == 0 {
			continue
		}
		slices.Sort(list)
		m.Leaders = append(m.Leaders, l.message(id, slices.Compact(list)))
	}
	if shards {
		m.Shards = v.shardsLocked()
	}
	return m
}

func (v *View) shardsLocked() []*coordinatorv1.ShardOwner {
	owners := make([]*coordinatorv1.ShardOwner, 0, len(v.mu.shards))
	for shard, s := range v.mu.shards {
		owners = append(owners, &coordinatorv1.ShardOwner{Shard: shard, Node: s.Node, Epoch: s.Epoch})
	}
	slices.SortFunc(owners, func(a, b *coordinatorv1.ShardOwner) int { return cmp.Compare(a.Shard, b.Shard) })
	return owners
}

func (l *leaders) message(id rows.TopicID, partitions []int32) *coordinatorv1.TopicLeaders {
	m := &coordinatorv1.TopicLeaders{
		TopicId:    id[:],
		Partitions: partitions,
		Leaders:    make([]string, len(partitions)),
		Epochs:     make([]int32, len(partitions)),
	}
	for i, p := range partitions {
		m.Leaders[i], m.Epochs[i] = l.leads[p].node, l.leads[p].epoch
	}
	return m
}
