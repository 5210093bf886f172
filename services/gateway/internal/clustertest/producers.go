package clustertest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// Producers gives numbers to producer ids.
type Producers struct {
	coordinatorv1.UnimplementedProducerServiceServer

	mu struct {
		sync.Mutex
		ids  []*coordinatorv1.ProducerId
		next int64
		fail []error
	}
}

// FailNext makes the next calls fail, one error each.
func (p *Producers) FailNext(failures ...error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.fail = append(p.mu.fail, failures...)
}

func (p *Producers) failureLocked() error {
	if len(p.mu.fail) == 0 {
		return nil
	}
	err := p.mu.fail[0]
	p.mu.fail = p.mu.fail[1:]
	return err
}

// ResolveProducer returns an id's number.
func (p *Producers) ResolveProducer(_ context.Context, req *coordinatorv1.ResolveProducerRequest) (*coordinatorv1.ResolveProducerResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.failureLocked(); err != nil {
		return nil, err
	}
	for _, id := range p.mu.ids {
		if id.GetProducerId() != req.GetProducerId() {
			continue
		}
		if id.GetOwner() != req.GetOwner() {
			return nil, errs.New(errs.PermissionDenied, "PRODUCER_OF_ANOTHER_KEY", "the producer id belongs to another key")
		}
		return &coordinatorv1.ResolveProducerResponse{Number: id.GetNumber()}, nil
	}
	p.mu.next++
	p.mu.ids = append(p.mu.ids, &coordinatorv1.ProducerId{
		Owner: req.GetOwner(), ProducerId: req.GetProducerId(), Number: p.mu.next, LastUsedMs: 1763500000000,
	})
	return &coordinatorv1.ResolveProducerResponse{Number: p.mu.next}, nil
}

// ListProducers returns all ids in order.
func (p *Producers) ListProducers(context.Context, *coordinatorv1.ListProducersRequest) (*coordinatorv1.ListProducersResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := slices.Clone(p.mu.ids)
	slices.SortFunc(ids, func(a, b *coordinatorv1.ProducerId) int { return cmp.Compare(a.GetProducerId(), b.GetProducerId()) })
	return &coordinatorv1.ListProducersResponse{Producers: ids}, p.failureLocked()
}

// ForgetProducer forgets an id.
func (p *Producers) ForgetProducer(_ context.Context, req *coordinatorv1.ForgetProducerRequest) (*coordinatorv1.ForgetProducerResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.mu.ids)
	p.mu.ids = slices.DeleteFunc(p.mu.ids, func(id *coordinatorv1.ProducerId) bool {
		return id.GetProducerId() == req.GetProducerId() && (req.GetOwner() == "" || req.GetOwner() == id.GetOwner())
	})
	return &coordinatorv1.ForgetProducerResponse{Found: len(p.mu.ids) < before}, p.failureLocked()
}

// RefusePrepare makes the next checks of a producer's records on a partition number
// fail, one error each.
func (s *Storage) RefusePrepare(partition int32, errors ...*storagev1.PartitionError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.refusePrepare[partition] = append(s.mu.refusePrepare[partition], errors...)
}

// Prepares returns how often Prepare was called.
func (s *Storage) Prepares() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.prepares
}

func (p *partition) note(header recordbatch.Header) {
	number, sequence, ok := header.Wide()
	if !ok {
		return
	}
	if p.sequenced == nil {
		p.sequenced = make(map[int64]map[int64]int64)
	}
	if p.sequenced[number] == nil {
		p.sequenced[number] = make(map[int64]int64)
	}
	for i := range int64(header.Count) {
		p.sequenced[number][sequence+i] = header.BaseOffset + i
	}
}

// Prepare tells which records are there. Nothing is ever too old.
func (s *Storage) Prepare(_ context.Context, req *storagev1.PrepareRequest) (*storagev1.PrepareResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.prepares++
	resp := &storagev1.PrepareResponse{}
	for _, asked := range req.GetPartitions() {
		number := asked.GetPartition().GetPartition()
		if queue := s.mu.refusePrepare[number]; len(queue) > 0 {
			s.mu.refusePrepare[number] = queue[1:]
			resp.Prepared = append(resp.Prepared, &storagev1.PrepareResponse_PartitionPrepared{Error: queue[0]})
			continue
		}
		known := s.partitionLocked(asked.GetPartition().GetTopicId(), number).sequenced[req.GetProducerId()&^recordbatch.WideProducer]
		resp.Prepared = append(resp.Prepared, prepared(known, asked.GetSequences()))
	}
	return resp, nil
}

func prepared(known map[int64]int64, sequences []int64) *storagev1.PrepareResponse_PartitionPrepared {
	out := &storagev1.PrepareResponse_PartitionPrepared{Guard: []byte("guard")}
	next := int64(-1)
	for sequence := range known {
		next = max(next, sequence+1)
	}
	for i, sequence := range sequences {
		offset, ok := known[sequence]
		switch {
		case ok:
		case next >= 0 && sequence > next:
			return &storagev1.PrepareResponse_PartitionPrepared{Error: &storagev1.PartitionError{
				Code:    storagev1.ErrorCode_ERROR_CODE_OUT_OF_ORDER_SEQUENCE,
				Message: fmt.Sprintf("sequence gap: send the missing records first (expected %d, got %d)", next, sequence),
				Record:  new(int32(i)),
			}}
		default:
			offset, next = -1, max(next, sequence+1)
		}
		out.DuplicateOffsets = append(out.DuplicateOffsets, offset)
	}
	return out
}

// DescribeProducers tells how far producers are.
func (s *Storage) DescribeProducers(context.Context, *storagev1.DescribeProducersRequest) (*storagev1.DescribeProducersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &storagev1.DescribeProducersResponse{}
	for key, p := range s.mu.partitions {
		described := &storagev1.DescribeProducersResponse_PartitionProducers{
			Partition: &storagev1.Partition{TopicId: []byte(key.topic), Partition: key.partition},
		}
		for number, known := range p.sequenced {
			last := int64(-1)
			for sequence := range known {
				last = max(last, sequence)
			}
			described.Producers = append(described.Producers, &storagev1.DescribeProducersResponse_Producer{
				ProducerId: recordbatch.WideProducer | number, LastSequence: last, LastOffset: known[last],
			})
		}
		resp.Partitions = append(resp.Partitions, described)
	}
	return resp, nil
}
