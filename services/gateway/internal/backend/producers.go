package backend

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/grpc"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/gateway/internal/picture"
	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// Producers returns the idempotent producers by id, each with how far it is on the
// partitions that remember it, by topic and partition. What a node that does not
// answer would have told is missing.
func (b *Backend) Producers(ctx context.Context, caller grants.Caller) ([]*adminv1.Producer, error) {
	if err := caller.Admin(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	var listed *coordinatorv1.ListProducersResponse
	err := b.producers(ctx, func(c coordinatorv1.ProducerServiceClient, opts ...grpc.CallOption) (err error) {
		listed, err = c.ListProducers(ctx, &coordinatorv1.ListProducersRequest{}, opts...)
		return err
	})
	if err != nil {
		return nil, err
	}
	byNumber := make(map[int64]*adminv1.Producer, len(listed.GetProducers()))
	producers := make([]*adminv1.Producer, len(listed.GetProducers()))
	for i, p := range listed.GetProducers() {
		producers[i] = &adminv1.Producer{ProducerId: p.GetProducerId(), Owner: p.GetOwner(), LastUsedMs: p.GetLastUsedMs()}
		byNumber[p.GetNumber()] = producers[i]
	}
	seen := b.watcher.Current()
	for _, described := range b.describeProducers(ctx, seen) {
		for _, partition := range described.GetPartitions() {
			if len(partition.GetPartition().GetTopicId()) != len(picture.TopicID{}) {
				continue
			}
			topic := seen.TopicByID(picture.TopicID(partition.GetPartition().GetTopicId()))
			if topic == nil {
				continue // it is just going
			}
			for _, known := range partition.GetProducers() {
				// Others are Kafka's, or forgotten, and go by themselves.
				if p := byNumber[known.GetProducerId()&^recordbatch.WideProducer]; p != nil && recordbatch.IsWide(known.GetProducerId()) {
					p.Partitions = append(p.Partitions, &adminv1.ProducerPartition{
						Topic: topic.Name, Partition: partition.GetPartition().GetPartition(),
						LastSequence: known.GetLastSequence(), LastOffset: known.GetLastOffset(),
					})
				}
			}
		}
	}
	for _, p := range producers {
		slices.SortFunc(p.Partitions, func(a, b *adminv1.ProducerPartition) int {
			return cmp.Or(cmp.Compare(a.GetTopic(), b.GetTopic()), cmp.Compare(a.GetPartition(), b.GetPartition()))
		})
	}
	return producers, nil
}

// describeProducers asks every storage node.
func (b *Backend) describeProducers(ctx context.Context, seen *picture.Picture) []*storagev1.DescribeProducersResponse {
	nodes := seen.WithRole(RoleStorage)
	described := make([]*storagev1.DescribeProducersResponse, len(nodes))
	var calls confine.Fan
	for i, node := range nodes {
		calls.Do(func() {
			err := b.reachStorage(ctx, seen, node, func(c storagev1.StorageServiceClient, opts ...grpc.CallOption) (err error) {
				described[i], err = c.DescribeProducers(ctx, &storagev1.DescribeProducersRequest{}, opts...)
				return err
			})
			if err != nil {
				b.logger.WarnContext(ctx, "a node does not tell its producers", "node", node, "error", err)
			}
		})
	}
	calls.Wait()
	return described
}

// ForgetProducer forgets a producer id. Its next use, by whatever key, is that of a
// new producer. owner may name whose it must be.
func (b *Backend) ForgetProducer(ctx context.Context, caller grants.Caller, owner, id string) error {
	if err := caller.Admin(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	var resp *coordinatorv1.ForgetProducerResponse
	err := b.producers(ctx, func(c coordinatorv1.ProducerServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.ForgetProducer(ctx, &coordinatorv1.ForgetProducerRequest{Owner: owner, ProducerId: id}, opts...)
		return err
	})
	if err == nil && !resp.GetFound() {
		err = ErrUnknownProducer.WithMessage("producer %q does not exist", id)
	}
	return err
}

func (b *Backend) producers(ctx context.Context, do func(c coordinatorv1.ProducerServiceClient, opts ...grpc.CallOption) error) error {
	return b.coordinators.call(ctx, func(conn grpc.ClientConnInterface, opts ...grpc.CallOption) error {
		return do(coordinatorv1.NewProducerServiceClient(conn), opts...)
	})
}
