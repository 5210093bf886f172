package cluster

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
)

func topic(name string, partitions int, nodes ...string) *coordinatorv1.Topic {
	t := &coordinatorv1.Topic{Id: []byte(name), Name: name, Version: 3, Config: map[string]string{"retention.ms": "1"}}
	assignment := &coordinatorv1.Assignment{Nodes: nodes}
	for i := range nodes {
		assignment.ReplicaIds = append(assignment.ReplicaIds, uint64(i)+1)
	}
	for range partitions {
		t.Partitions = append(t.Partitions, assignment)
	}
	return t
}

func TestANodeIsToldItsOwnReplicasWithAllVoters(t *testing.T) {
	requests := placements("b", []*coordinatorv1.Topic{topic("one", 2, "a", "b"), topic("other", 2, "a", "c")})
	require.Len(t, requests, 1)
	require.Len(t, requests[0].Topics, 1)
	placed := requests[0].Topics[0]
	require.Equal(t, "one", placed.Name)
	require.EqualValues(t, 3, placed.ConfigVersion)
	require.Len(t, placed.Partitions, 2)
	require.EqualValues(t, 1, placed.Partitions[1].Partition)
	require.EqualValues(t, 2, placed.Partitions[1].ReplicaId)
	require.Equal(t, "a", placed.Partitions[1].Voters[0].Node)
	require.EqualValues(t, 2, placed.Partitions[1].Voters[1].ReplicaId)
}

func TestRequestsAreSmallEnoughAndATopicIsOne(t *testing.T) {
	var topics []*coordinatorv1.Topic
	for i := range 7 {
		topics = append(topics, topic(strconv.Itoa(i), 10_000-i, "node-with-a-long-name-1", "node-with-a-long-name-2", "node-with-a-long-name-3"))
	}
	topics = append(topics, topic("none of it", 10, "other"))
	requests := placements("node-with-a-long-name-2", topics)
	require.Len(t, requests, 4)
	seen := map[string]int{}
	for _, r := range requests {
		require.Less(t, proto.Size(r), 4<<20)
		for _, placed := range r.Topics {
			seen[placed.Name]++
		}
	}
	require.Len(t, seen, 7)
	for name, n := range seen {
		require.Equal(t, 1, n, name)
	}
}
