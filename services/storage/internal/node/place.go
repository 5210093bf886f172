package node

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// Place makes the replicas of topics that are not there yet, and takes over
// configs that are newer. When it returns the node will hold them after a crash
// too. Placing what is there changes nothing. A topic that was removed before is
// not placed, and named by a *RemovedError; the others are.
func (n *Node) Place(topics []*persistv1.CatalogTopic) error {
	n.placing.Lock()
	defer n.placing.Unlock()
	if n.stopping() {
		return ErrStopping
	}
	known := map[uuid.UUID]*persistv1.CatalogTopic{}
	for _, record := range n.catalog.Topics() {
		if id, err := uuid.FromBytes(record.GetTopicId()); err == nil {
			known[id] = record
		}
	}
	var (
		changed []*persistv1.CatalogTopic
		removed RemovedError
	)
	for _, asked := range topics {
		id, err := uuid.FromBytes(asked.GetTopicId())
		if err != nil {
			return fmt.Errorf("topic %q: id: %w", asked.GetName(), err)
		}
		merged, isNew, err := merge(known[id], asked)
		if err != nil {
			return fmt.Errorf("topic %q: %w", asked.GetName(), err)
		}
		if n.catalog.Refuses(id, asked.GetConfigVersion()) {
			removed.Topics = append(removed.Topics, id)
			continue
		}
		if isNew {
			changed = append(changed, merged)
			known[id] = merged
		}
	}
	if err := n.catalog.Put(changed...); err != nil {
		return diskFailure(err)
	}
	for _, record := range changed {
		added, err := n.adopt(record)
		if err != nil {
			return err
		}
		for _, p := range added {
			n.reports.changed(p)
		}
	}
	if len(removed.Topics) > 0 {
		return &removed
	}
	return nil
}

// merge returns what the catalog is to hold after a placement, and whether that
// differs from what it holds.
func merge(have, asked *persistv1.CatalogTopic) (*persistv1.CatalogTopic, bool, error) {
	for _, p := range asked.GetPartitions() {
		switch {
		case p.GetPartition() < 0 || p.GetReplicaId() == 0:
			return nil, false, fmt.Errorf("partition %d with replica id %d: expected 0 or more, and 1 or more", p.GetPartition(), p.GetReplicaId())
		case len(p.GetVoterIds()) != len(p.GetVoterNodes()) || !slices.Contains(p.GetVoterIds(), p.GetReplicaId()):
			return nil, false, fmt.Errorf("partition %d: replica %d is not among its voters", p.GetPartition(), p.GetReplicaId())
		case len(p.GetVoterIds()) != 1:
			return nil, false, fmt.Errorf("partition %d has %d replicas: %w", p.GetPartition(), len(p.GetVoterIds()), ErrReplicas)
		}
	}
	if have == nil {
		return asked, true, nil
	}
	merged := proto.CloneOf(have)
	differs := false
	if asked.GetConfigVersion() > have.GetConfigVersion() {
		merged.Config, merged.ConfigVersion = maps.Clone(asked.GetConfig()), asked.GetConfigVersion()
		differs = true
	}
	placed := map[int32]*persistv1.CatalogPartition{}
	for _, p := range have.GetPartitions() {
		placed[p.GetPartition()] = p
	}
	for _, p := range asked.GetPartitions() {
		old := placed[p.GetPartition()]
		switch {
		case old == nil:
			merged.Partitions = append(merged.Partitions, p)
			differs = true
		case old.GetReplicaId() != p.GetReplicaId():
			return nil, false, fmt.Errorf("partition %d is held as replica %d, not %d", p.GetPartition(), old.GetReplicaId(), p.GetReplicaId())
		}
	}
	return merged, differs, nil
}

// Remove deletes the replicas of topics and their data; each topic was deleted at
// an etcd revision or before. What waits on them is answered with
// ErrUnknownPartition. The data goes in the background, after a crash at the next
// start, and what is in cold storage with the passes to come. None of them is placed
// any more, whether it was there or not: a placement may still be on its way.
func (n *Node) Remove(ids []uuid.UUID, revision int64) error {
	n.placing.Lock()
	defer n.placing.Unlock()
	if n.stopping() {
		return ErrStopping
	}
	if err := n.catalog.Remove(revision, ids, n.mayBeCold(ids)); err != nil {
		return diskFailure(err)
	}
	for _, id := range ids {
		var closed []<-chan struct{}
		ended := n.forget(id)
		for _, p := range ended {
			closed = append(closed, p.abandon())
		}
		if earlier := n.deleting[id]; earlier != nil {
			closed = append(closed, earlier)
		}
		deleted := make(chan struct{})
		n.deleting[id] = deleted
		n.background(func() {
			defer n.deleted(id, deleted)
			for _, done := range closed {
				<-done
			}
			for _, p := range ended {
				p.awaitCleaning()
				p.tiering.await()
			}
			if err := n.options.FS.RemoveAll(n.topicFolder(id.String())); err != nil {
				n.options.Logger.Error("deleting a removed topic failed; it is tried again at the next start",
					"topic_id", id.String(), "error", err)
			}
		})
	}
	return nil
}

// deleted notes that a removed topic's data is gone, or cannot go.
func (n *Node) deleted(id uuid.UUID, done chan struct{}) {
	close(done)
	n.placing.Lock()
	defer n.placing.Unlock()
	if n.deleting[id] == done {
		delete(n.deleting, id)
	}
}

// forget takes a topic out of the node's maps and ends its partitions.
func (n *Node) forget(id uuid.UUID) []*Partition {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.mu.topics, id)
	var ended []*Partition
	for key, p := range n.mu.partitions {
		if key.Topic == id {
			delete(n.mu.partitions, key)
			ended = append(ended, p)
		}
	}
	return ended
}

// abandon ends a removed partition: nothing is taken any more. The channel is
// closed when its replica is.
func (p *Partition) abandon() <-chan struct{} {
	return p.end(ErrUnknownPartition, func(r *replica.Replica) {
		if err := r.Abandon(); err != nil {
			p.node.options.Logger.Warn("closing a removed replica failed",
				"topic", p.topic.name, "partition", p.key.Partition, "error", err)
		}
	})
}

func (n *Node) stopping() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.mu.stopping
}
