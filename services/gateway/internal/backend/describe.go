package backend

import (
	"context"

	"google.golang.org/grpc"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/gateway/internal/picture"
	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// DescribeTopic returns what a topic holds, and its resolved config.
func (b *Backend) DescribeTopic(ctx context.Context, caller grants.Caller, name string) (*logv1.GetTopicResponse, error) {
	topic, err := b.readable(ctx, caller, name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	descriptions, err := b.describePartitions(ctx, topic)
	if err != nil {
		return nil, err
	}
	resp := &logv1.GetTopicResponse{
		Name:       topic.Name,
		Partitions: make([]*logv1.PartitionInfo, len(topic.Partitions)),
		Config:     b.topics.Resolve(topic.Config),
	}
	for i, d := range descriptions {
		resp.Partitions[i] = &logv1.PartitionInfo{
			Id:           int32(i),
			StartOffset:  d.GetLogStartOffset(),
			EndOffset:    d.GetHighWatermark(),
			SegmentCount: d.GetSegmentCount(),
			SizeBytes:    d.GetSizeBytes(),
			Leader:       topic.Partitions[i].Leader,
			LeaderEpoch:  topic.Partitions[i].Epoch,
		}
		// Storage knows better than the picture who leads.
		if leader := d.GetLeader(); leader.GetNode() != "" {
			resp.Partitions[i].Leader = leader.GetNode()
			resp.Partitions[i].LeaderEpoch = leader.GetEpoch()
		}
	}
	return resp, nil
}

// describePartitions returns a description of each partition, by its leader
// where that answers, else by any replica.
func (b *Backend) describePartitions(ctx context.Context, topic *picture.Topic) ([]*storagev1.DescribeResponse_PartitionDescription, error) {
	descriptions := make([]*storagev1.DescribeResponse_PartitionDescription, len(topic.Partitions))
	ways := make([]route, len(topic.Partitions))
	missing := make([]int32, len(topic.Partitions))
	for i := range missing {
		missing[i] = int32(i)
	}
	for chase := b.pursue(); ; {
		seen := b.watcher.Current()
		byNode := make(map[string][]int32)
		for _, i := range missing {
			node := ways[i].next(topic.Partitions[i])
			byNode[node] = append(byNode[node], i)
		}
		var calls confine.Fan
		for node, partitions := range byNode {
			calls.Do(func() { b.describeOn(ctx, seen, node, topic, partitions, descriptions) })
		}
		calls.Wait()

		var left []int32
		for _, i := range missing {
			if descriptions[i] == nil {
				left = append(left, i)
			}
		}
		if len(left) == 0 {
			return descriptions, nil
		}
		missing = left
		if !chase.again(ctx, seen) {
			return nil, subject{topic.Name, missing[0]}.noLeader()
		}
	}
}

// describeOn asks one node for some partitions and fills in those that it can
// tell about.
func (b *Backend) describeOn(ctx context.Context, seen *picture.Picture, node string, topic *picture.Topic, partitions []int32, into []*storagev1.DescribeResponse_PartitionDescription) {
	req := &storagev1.DescribeRequest{Partitions: make([]*storagev1.Partition, len(partitions))}
	for i, p := range partitions {
		req.Partitions[i] = &storagev1.Partition{TopicId: topic.ID[:], Partition: p}
	}
	resp, err := b.describe(ctx, seen, node, req)
	if err != nil {
		b.logger.DebugContext(ctx, "describe failed", "node", node, "error", err)
		return
	}
	for _, d := range resp.GetDescriptions() {
		p := d.GetPartition().GetPartition()
		if d.GetPartition() == nil || p < 0 || int(p) >= len(into) || elsewhere(d.GetError()) {
			continue
		}
		into[p] = d
	}
}

func (b *Backend) describe(ctx context.Context, seen *picture.Picture, node string, req *storagev1.DescribeRequest) (resp *storagev1.DescribeResponse, err error) {
	err = b.reachStorage(ctx, seen, node, func(c storagev1.StorageServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.Describe(ctx, req, opts...)
		return err
	})
	if err != nil && errs.KindOf(err) == errs.Unavailable {
		return nil, ErrUnreachable.WithMessage("node %q does not answer", node).Because(err)
	}
	return resp, err
}
