package view

import (
	"encoding/hex"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/kit/lease"
)

// apply brings the picture to an update's revision. A row counts as applied from when
// that begins: one that panics is logged, and the snapshot that the watch goes on with
// leaves it out, so that one row does not keep all others from being seen.
func (v *View) apply(u lease.Update) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if u.Snapshot {
		there := make(map[string]bool, len(u.Changes))
		for _, c := range u.Changes {
			there[c.Key] = true
		}
		for key := range v.mu.keys {
			if !there[key] {
				v.applyLocked(lease.Change{Key: key, Deleted: true, ModRevision: u.Revision})
			}
		}
	}
	for _, c := range u.Changes {
		if v.mu.keys[c.Key] != c.ModRevision {
			v.applyLocked(c)
		}
	}
	// Progress without a change is nothing that anybody waits for here.
	first := v.mu.revision == 0
	v.mu.revision = u.Revision
	if first || len(u.Changes) > 0 {
		v.wakeLocked()
	}
}

func (v *View) applyLocked(c lease.Change) {
	if c.Deleted {
		delete(v.mu.keys, c.Key)
	} else {
		v.mu.keys[c.Key] = c.ModRevision
	}
	var err error
	switch {
	case strings.HasPrefix(c.Key, rows.Topics):
		err = v.topicLocked(strings.TrimPrefix(c.Key, rows.Topics), c)
	case strings.HasPrefix(c.Key, rows.Deleting):
		err = v.deletingLocked(strings.TrimPrefix(c.Key, rows.Deleting), c)
	case strings.HasPrefix(c.Key, rows.Nodes):
		err = v.nodeLocked(strings.TrimPrefix(c.Key, rows.Nodes), c)
	case strings.HasPrefix(c.Key, rows.Forgotten):
		if id := strings.TrimPrefix(c.Key, rows.Forgotten); c.Deleted {
			delete(v.mu.forgotten, id)
		} else {
			v.mu.forgotten[id] = true
		}
	case strings.HasPrefix(c.Key, rows.Shards):
		err = v.shardLocked(c)
	case strings.HasPrefix(c.Key, rows.Election+"/"):
		if c.Deleted {
			delete(v.mu.candidates, c.Key)
		} else {
			v.mu.candidates[c.Key] = candidate{node: string(c.Value), revision: c.CreateRevision}
		}
	}
	if err != nil {
		// What cannot be read is left as it was; nothing is deleted for it.
		v.log.Error("a row in etcd cannot be read", "key", c.Key, "err", err)
	}
}

func (v *View) topicLocked(name string, c lease.Change) error {
	old := v.mu.topics[name]
	if c.Deleted {
		if old != nil {
			v.forgetTopicLocked(old)
		}
		return nil
	}
	topic, err := rows.DecodeTopic(c.Value, c.ModRevision)
	if err != nil {
		return err
	}
	if topic.Name != name {
		return fmt.Errorf("the row is that of %q", topic.Name)
	}
	id := rows.TopicID(topic.Id)
	if old != nil && rows.TopicID(old.Id) != id {
		// Deleted and made again between two snapshots.
		v.forgetTopicLocked(old)
	}
	_, known := v.mu.byID[id]
	v.mu.topics[name], v.mu.byID[id] = topic, topic
	v.mu.topicChanges++
	v.changedLocked(change{kind: topicChanged, topic: id})
	if !known {
		// Leaders may have been reported before the row was seen.
		v.changedLocked(change{kind: leadersChanged, topic: id, partitions: v.mu.leaders[id].all()})
	}
	return nil
}

func (v *View) forgetTopicLocked(t *coordinatorv1.Topic) {
	id := rows.TopicID(t.Id)
	delete(v.mu.topics, t.Name)
	delete(v.mu.byID, id)
	delete(v.mu.leaders, id)
	v.mu.removals++
	v.mu.topicChanges++
	v.changedLocked(change{kind: topicChanged, topic: id})
}

func (v *View) deletingLocked(hexID string, c lease.Change) error {
	b, err := hex.DecodeString(hexID)
	if err != nil {
		return fmt.Errorf("the key is no topic's id: %w", err)
	}
	id, ok := rows.ParseTopicID(b)
	if !ok {
		return fmt.Errorf("the key is no topic's id")
	}
	delete(v.mu.leaders, id)
	if c.Deleted {
		delete(v.mu.deleting, id)
		return nil
	}
	row := &persistv1.TopicRow{}
	if err := proto.Unmarshal(c.Value, row); err != nil {
		return err
	}
	v.mu.deleting[id] = Deleting{ID: id, Name: row.Name, Nodes: row.Nodes, Revision: c.ModRevision}
	return nil
}

func (v *View) nodeLocked(id string, c lease.Change) error {
	if c.Deleted {
		delete(v.mu.nodes, id)
		v.dropReportsLocked(id)
		v.changedLocked(change{kind: nodeChanged, node: id})
		return nil
	}
	row := &persistv1.NodeRow{}
	if err := proto.Unmarshal(c.Value, row); err != nil {
		return err
	}
	if row.Id != id {
		return fmt.Errorf("the row is that of node %q", row.Id)
	}
	v.mu.nodes[id] = Node{
		Node: &coordinatorv1.Node{
			Id: row.Id, Roles: row.Roles, Address: row.Address, Rack: row.Rack, Doors: row.Doors,
		},
		Incarnation: string(row.Incarnation),
	}
	v.changedLocked(change{kind: nodeChanged, node: id})
	return nil
}

func (v *View) shardLocked(c lease.Change) error {
	shard, err := rows.ParseShardKey(c.Key)
	if err != nil {
		return err
	}
	if c.Deleted {
		// The shard stays, without an owner: followers are told of it.
		v.mu.shards[shard] = Shard{}
	} else {
		row := &persistv1.ShardRow{}
		if err := proto.Unmarshal(c.Value, row); err != nil {
			return err
		}
		v.mu.shards[shard] = Shard{Node: row.Node, Epoch: c.CreateRevision}
	}
	v.changedLocked(change{kind: shardsChanged})
	return nil
}
