package rpc

import (
	"context"
	"fmt"
	"sync"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/check"
	"github.com/sluiceio/sluice/services/storage/internal/node"
	"github.com/sluiceio/sluice/services/storage/internal/producer"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// Prepare implements StorageService.
func (s *Service) Prepare(ctx context.Context, request *storagev1.PrepareRequest) (*storagev1.PrepareResponse, error) {
	response := &storagev1.PrepareResponse{
		Prepared: make([]*storagev1.PrepareResponse_PartitionPrepared, len(request.GetPartitions())),
	}
	var all sync.WaitGroup
	for i, asked := range request.GetPartitions() {
		all.Go(func() {
			prepared, err := s.prepare(ctx, request, asked)
			if err != nil {
				response.Prepared[i] = &storagev1.PrepareResponse_PartitionPrepared{Error: partitionError(err)}
				return
			}
			response.Prepared[i] = &storagev1.PrepareResponse_PartitionPrepared{
				Guard: prepared.Guard.Encode(), DuplicateOffsets: prepared.Offsets,
			}
		})
	}
	all.Wait()
	return response, nil
}

func (s *Service) prepare(ctx context.Context, request *storagev1.PrepareRequest, asked *storagev1.PrepareRequest_PartitionPrepare) (replica.Prepared, error) {
	p, err := s.partition(asked.GetPartition())
	if err != nil {
		return replica.Prepared{}, err
	}
	id := request.GetProducerId()
	switch {
	case request.GetPurpose() == storagev1.Purpose_PURPOSE_TRANSACTION:
		err = fmt.Errorf("%w: transactions", errUnsupported)
	case request.GetPurpose() != storagev1.Purpose_PURPOSE_SEQUENCED_APPEND:
		err = fmt.Errorf("%w: purpose %d, expected an append or a transaction", errInvalid, request.GetPurpose())
	case p.Internal():
		err = fmt.Errorf("%w: topic %q is the system's own", errInvalid, p.TopicName())
	case !recordbatch.IsWide(id) || id&^recordbatch.WideProducer > recordbatch.MaxWideNumber:
		err = fmt.Errorf("%w: producer id %d, expected bit 62 and a number below it of 44 bits", errInvalid, id)
	case len(asked.GetSequences()) == 0:
		err = fmt.Errorf("%w: no sequences", errInvalid)
	}
	if err != nil {
		return replica.Prepared{}, err
	}
	for i, sequence := range asked.GetSequences() {
		if sequence < 0 {
			return replica.Prepared{}, fmt.Errorf("%w: sequence %d of record %d is below 0", errInvalid, sequence, i)
		}
	}
	return p.Prepare(ctx, id, asked.GetSequences())
}

// sequencedBy reads who has numbered the batches of an append; nil is nobody.
func sequencedBy(batches []check.Batch, guard []byte) (*replica.Sequenced, error) {
	var numbered []producer.Batch
	for i := range batches {
		batch := &batches[i]
		if batch.Header.Attributes.Transactional() || batch.Header.Attributes.Control() {
			return nil, fmt.Errorf("%w: transactional batches", errUnsupported)
		}
		b, ok, err := producer.Of(batch.Header)
		if err != nil {
			return nil, err
		}
		if ok {
			numbered = append(numbered, b)
		}
	}
	switch {
	case len(numbered) == 0 && guard == nil:
		return nil, nil
	case len(numbered) < len(batches):
		return nil, fmt.Errorf("%w: batches with a producer beside others without", errInvalid)
	case !numbered[0].Wide() && (len(batches) > 1 || guard != nil):
		return nil, fmt.Errorf("%w: expected one batch of an idempotent producer and no guard, got %d", errInvalid, len(batches))
	case !numbered[0].Wide():
		return &replica.Sequenced{Batches: numbered}, nil
	}
	valid, err := producer.DecodeGuard(guard)
	return &replica.Sequenced{Batches: numbered, Guard: valid}, err
}

// DescribeProducers implements StorageService.
func (s *Service) DescribeProducers(ctx context.Context, request *storagev1.DescribeProducersRequest) (*storagev1.DescribeProducersResponse, error) {
	response := &storagev1.DescribeProducersResponse{}
	if len(request.GetPartitions()) == 0 {
		for _, p := range s.options.Node.Partitions() {
			if out := describeProducers(ctx, nameOf(p), p); out.GetError() == nil && len(out.GetProducers()) > 0 {
				response.Partitions = append(response.Partitions, out)
			}
		}
		return response, nil
	}
	for _, name := range request.GetPartitions() {
		p, err := s.partition(name)
		if err != nil {
			response.Partitions = append(response.Partitions, &storagev1.DescribeProducersResponse_PartitionProducers{
				Partition: name, Error: partitionError(err),
			})
			continue
		}
		response.Partitions = append(response.Partitions, describeProducers(ctx, name, p))
	}
	return response, nil
}

func describeProducers(ctx context.Context, name *storagev1.Partition, p *node.Partition) *storagev1.DescribeProducersResponse_PartitionProducers {
	out := &storagev1.DescribeProducersResponse_PartitionProducers{Partition: name}
	known, err := p.Producers(ctx)
	if err != nil {
		out.Error = partitionError(err)
		return out
	}
	for _, k := range known {
		out.Producers = append(out.Producers, &storagev1.DescribeProducersResponse_Producer{
			ProducerId: k.Producer, ProducerEpoch: int32(k.Epoch), LastSequence: k.LastSequence, LastOffset: k.LastOffset,
			LastTimestampMs: k.LastAppendMs, CoordinatorEpoch: -1, TransactionStartOffset: -1,
		})
	}
	return out
}
