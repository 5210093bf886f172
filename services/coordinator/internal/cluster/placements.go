package cluster

import (
	"slices"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
)

// placementChunk limits the partitions of one request. A partition with three
// replicas takes some 60 bytes, so a request stays well under the 4 MiB that
// gRPC takes by default, and a topic of the largest size is one request.
const placementChunk = 20_000

// placements builds the requests that tell a node what it holds of topics.
func placements(node string, topics []*coordinatorv1.Topic) []*storagev1.PlaceReplicasRequest {
	var requests []*storagev1.PlaceReplicasRequest
	room := 0
	for _, t := range topics {
		placement := placement(node, t)
		n := len(placement.Partitions)
		if n == 0 {
			continue
		}
		if n > room {
			requests = append(requests, &storagev1.PlaceReplicasRequest{})
			room = placementChunk
		}
		room -= n
		last := requests[len(requests)-1]
		last.Topics = append(last.Topics, placement)
	}
	return requests
}

// placement is what a node holds of a topic.
func placement(node string, t *coordinatorv1.Topic) *storagev1.PlaceReplicasRequest_TopicPlacement {
	placement := &storagev1.PlaceReplicasRequest_TopicPlacement{
		TopicId: t.Id, Name: t.Name, Config: t.Config, ConfigVersion: t.Version, Internal: t.Internal,
	}
	// Partitions share assignments, so they can share voters.
	voters := make(map[*coordinatorv1.Assignment][]*storagev1.PlaceReplicasRequest_Voter)
	for p, assignment := range t.Partitions {
		at := slices.Index(assignment.Nodes, node)
		if at < 0 {
			continue
		}
		if voters[assignment] == nil {
			list := make([]*storagev1.PlaceReplicasRequest_Voter, len(assignment.Nodes))
			for i, n := range assignment.Nodes {
				list[i] = &storagev1.PlaceReplicasRequest_Voter{ReplicaId: assignment.ReplicaIds[i], Node: n}
			}
			voters[assignment] = list
		}
		placement.Partitions = append(placement.Partitions, &storagev1.PlaceReplicasRequest_PartitionPlacement{
			Partition: int32(p), ReplicaId: assignment.ReplicaIds[at], Voters: voters[assignment],
		})
	}
	return placement
}
