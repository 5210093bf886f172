package rows

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
)

// DecodeTopic reads a topic's row as it stood at etcd's revision version. What
// it returns shares parts between partitions and must not be changed.
func DecodeTopic(value []byte, version int64) (*coordinatorv1.Topic, error) {
	row := &persistv1.TopicRow{}
	if err := proto.Unmarshal(value, row); err != nil {
		return nil, fmt.Errorf("decode the row of a topic: %w", err)
	}
	return Topic(row, version)
}

// Topic is the row as the other services see it.
func Topic(row *persistv1.TopicRow, version int64) (*coordinatorv1.Topic, error) {
	if _, ok := ParseTopicID(row.Id); !ok {
		return nil, fmt.Errorf("row of topic %q: id of %d bytes", row.Name, len(row.Id))
	}
	topic := &coordinatorv1.Topic{
		Id:          row.Id,
		Name:        row.Name,
		Config:      row.Config,
		Internal:    row.Internal,
		CreatedAtMs: row.CreatedAtMs,
		Version:     version,
		Partitions:  make([]*coordinatorv1.Assignment, len(row.Partitions)),
	}
	// Thousands of partitions have a handful of different assignments.
	shared := make(map[string]*coordinatorv1.Assignment)
	var key []byte
	for p, part := range row.Partitions {
		if len(part.Nodes) != len(part.ReplicaIds) || len(part.Nodes) == 0 {
			return nil, fmt.Errorf("row of topic %q: partition %d has %d nodes and %d replica ids",
				row.Name, p, len(part.Nodes), len(part.ReplicaIds))
		}
		key = key[:0]
		for i, n := range part.Nodes {
			if int(n) >= len(row.Nodes) {
				return nil, fmt.Errorf("row of topic %q: partition %d is on node %d of %d", row.Name, p, n, len(row.Nodes))
			}
			key = fmt.Appendf(key, "%d:%d,", n, part.ReplicaIds[i])
		}
		assignment, ok := shared[string(key)]
		if !ok {
			assignment = &coordinatorv1.Assignment{ReplicaIds: part.ReplicaIds, Nodes: make([]string, len(part.Nodes))}
			for i, n := range part.Nodes {
				assignment.Nodes[i] = row.Nodes[n]
			}
			shared[string(key)] = assignment
		}
		topic.Partitions[p] = assignment
	}
	return topic, nil
}

// Partitions packs assignments, lists of node ids, into the form of a row. Every
// replica is new: ids count from 1.
func Partitions(assignments [][]string) (nodes []string, parts []*persistv1.TopicRow_PartitionRow) {
	position := make(map[string]uint32)
	parts = make([]*persistv1.TopicRow_PartitionRow, len(assignments))
	for p, assigned := range assignments {
		part := &persistv1.TopicRow_PartitionRow{NextReplicaId: uint64(len(assigned)) + 1}
		for i, node := range assigned {
			at, ok := position[node]
			if !ok {
				at = uint32(len(nodes))
				position[node] = at
				nodes = append(nodes, node)
			}
			part.Nodes = append(part.Nodes, at)
			part.ReplicaIds = append(part.ReplicaIds, uint64(i)+1)
		}
		parts[p] = part
	}
	return nodes, parts
}
