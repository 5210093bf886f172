package backend

import (
	"context"

	"google.golang.org/grpc"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/gateway/internal/picture"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// TieredSegments returns the segments of a partition that are in cold storage, as
// its leader knows them.
func (b *Backend) TieredSegments(ctx context.Context, caller grants.Caller, name string, partition int32) ([]*adminv1.TieredSegment, error) {
	if err := caller.Admin(); err != nil {
		return nil, err
	}
	topic, err := b.topic(ctx, name)
	if err != nil {
		return nil, err
	}
	if partition < 0 || int(partition) >= len(topic.Partitions) {
		return nil, ErrPartitionNotFound.WithMessage("topic %q has partitions 0 to %d, got %d", topic.Name, len(topic.Partitions)-1, partition)
	}
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	var segments []*adminv1.TieredSegment
	for from := int64(0); ; {
		page, err := b.listCold(ctx, topic, partition, from)
		if err != nil {
			return nil, err
		}
		for _, s := range page.GetSegments() {
			segments = append(segments, &adminv1.TieredSegment{
				BaseOffset: s.GetBaseOffset(), LastOffset: s.GetLastOffset(), SizeBytes: s.GetSizeBytes(),
				UploadedAtMs: s.GetUploadedAtMs(), MaxTimestampMs: s.GetMaxTimestampMs(), Object: s.GetObject(),
				Local: s.GetBaseOffset() >= page.GetLocalStartOffset(),
			})
			from = s.GetLastOffset() + 1
		}
		if !page.GetMore() || len(page.GetSegments()) == 0 {
			return segments, nil
		}
	}
}

// listCold asks the leader for the segments from an offset on, as many as one
// answer holds.
func (b *Backend) listCold(ctx context.Context, topic *picture.Topic, partition int32, from int64) (*storagev1.ListColdSegmentsResponse, error) {
	req := &storagev1.ListColdSegmentsRequest{
		Partition: &storagev1.Partition{TopicId: topic.ID[:], Partition: partition}, FromOffset: from,
	}
	about := subject{topic.Name, partition}
	var way route
	for chase := b.pursue(); ; {
		seen := b.watcher.Current()
		current := seen.TopicByID(topic.ID)
		if current == nil {
			return nil, ErrTopicNotFound.WithMessage("topic %q does not exist", topic.Name)
		}
		var resp *storagev1.ListColdSegmentsResponse
		err := b.reachStorage(ctx, seen, way.next(current.Partitions[partition]), func(c storagev1.StorageServiceClient, opts ...grpc.CallOption) (err error) {
			resp, err = c.ListColdSegments(ctx, req, opts...)
			return err
		})
		switch {
		case err != nil && errs.KindOf(err) == errs.Unavailable:
			err = about.noLeader().Because(err)
		case err != nil:
			return nil, err
		case resp.GetError() == nil:
			return resp, nil
		default:
			if err = about.partitionError(resp.GetError()); !elsewhere(resp.GetError()) {
				return nil, err
			}
			way.refused(resp.GetError())
		}
		if !way.atOnce() && !chase.again(ctx, seen) {
			return nil, err
		}
	}
}
