package rpc

import (
	"context"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/storage/internal/node"
)

// Describe implements StorageService.
func (s *Service) Describe(ctx context.Context, request *storagev1.DescribeRequest) (*storagev1.DescribeResponse, error) {
	response := &storagev1.DescribeResponse{}
	if len(request.GetPartitions()) == 0 {
		for _, p := range s.options.Node.Partitions() {
			response.Descriptions = append(response.Descriptions, describe(ctx, nameOf(p), p))
		}
		return response, nil
	}
	for _, name := range request.GetPartitions() {
		p, err := s.partition(name)
		if err != nil {
			response.Descriptions = append(response.Descriptions, &storagev1.DescribeResponse_PartitionDescription{
				Partition: name, Error: partitionError(err),
			})
			continue
		}
		response.Descriptions = append(response.Descriptions, describe(ctx, name, p))
	}
	return response, nil
}

func nameOf(p *node.Partition) *storagev1.Partition {
	key := p.Key()
	return &storagev1.Partition{TopicId: key.Topic[:], Partition: key.Partition}
}

func describe(ctx context.Context, name *storagev1.Partition, p *node.Partition) *storagev1.DescribeResponse_PartitionDescription {
	out := &storagev1.DescribeResponse_PartitionDescription{Partition: name}
	d, err := p.Describe(ctx)
	if err != nil {
		out.Error, out.Role = partitionError(err), "failed"
		if out.Error.GetCode() == storagev1.ErrorCode_ERROR_CODE_DAMAGED {
			out.Role = "damaged"
		}
		return out
	}
	out.RefusesAppends = partitionError(p.RefusesAppends())
	view := d.View
	out.LogStartOffset = view.State.StartOffset
	out.HighWatermark = view.HighWatermark
	out.LastStableOffset = view.HighWatermark
	out.LogEndOffset = view.LogEnd
	out.SegmentCount = int32(d.Segments)
	out.SizeBytes = d.Bytes
	out.Role = string(view.Role)
	out.Term = int64(view.Term)
	out.Leader = hint(d.Leader)
	out.CommitIndex = int64(view.Commit)
	out.LastIndex = int64(view.Last)
	out.OwnerEpoch = view.State.OwnerEpoch
	out.RetentionSegmentsDeleted = d.Upkeep.SegmentsDeleted
	out.RetentionBytesReclaimed = d.Upkeep.BytesReclaimed
	out.CompactionRuns = d.Upkeep.Runs
	out.CompactionRecordsDropped = d.Upkeep.RecordsDropped
	out.LocalStartOffset = d.LocalStart
	out.ColdSegmentCount = int64(len(view.State.Cold.Segments()))
	out.ColdSizeBytes = view.State.Cold.Bytes()
	if view.Sole {
		out.Role = "leader"
		out.Replicas = []*storagev1.DescribeResponse_ReplicaProgress{{
			ReplicaId: d.ID, Node: d.Node, Role: "voter", State: "replicate",
			MatchIndex: int64(view.Last), NextIndex: int64(view.Last) + 1,
		}}
	}
	return out
}
