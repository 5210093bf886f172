package backend

import (
	"context"
	"hash/fnv"
	"slices"
	"time"

	"google.golang.org/grpc"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/gateway/internal/picture"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// maxPrepares is how often a request is checked anew because another request of
// its producer, or a new leader, came between the check and the write.
const maxPrepares = 8

// unwritten is the offset of a record that is to be written, or that repeats one of
// those in the same request.
const unwritten = -1

// A sequencedWrite is a request of a producer that was let in, with a share for each
// partition that it touches.
type sequencedWrite struct {
	records []NewRecord
	placed  []Placed
	shares  []*share
	result  *WriteResult
}

// produceSequenced writes requests of one producer, in their order. Those that touch
// one partition each are written together as long as they follow one another.
func (b *Backend) produceSequenced(ctx context.Context, caller grants.Caller, topic *picture.Topic, requests []WriteRequest, results []WriteResult) {
	var writes []*sequencedWrite
	for i, request := range requests {
		w, err := b.letIn(ctx, caller, topic, request)
		if err != nil {
			results[i].Err = err
			continue
		}
		w.result = &results[i]
		writes = append(writes, w)
	}
	if len(writes) == 0 {
		return
	}
	number, err := b.resolveProducer(ctx, caller, *requests[0].Producer)
	if err != nil {
		for _, w := range writes {
			w.result.Err = err
		}
		return
	}
	for from := 0; from < len(writes); {
		to := from
		for to < len(writes) && len(writes[to].shares) == 1 {
			to++
		}
		if to-from < 2 {
			b.writeSequenced(ctx, topic, number, writes[from])
			from++
			continue
		}
		b.writeMerged(ctx, topic, number, writes[from:to])
		from = to
	}
}

// letIn checks a request of a producer and takes what it has from the key's quota.
func (b *Backend) letIn(ctx context.Context, caller grants.Caller, topic *picture.Topic, request WriteRequest) (*sequencedWrite, error) {
	if err := b.checkRecords(topic, request); err != nil {
		return nil, err
	}
	w := &sequencedWrite{records: request.Records, placed: make([]Placed, len(request.Records))}
	w.shares = divide(topic, stick(topic, *request.Producer), w.records, w.placed)
	size := int64(0)
	for _, s := range w.shares {
		size += int64(s.bytes)
	}
	return w, b.quotas.produce(ctx, caller, size)
}

// writeSequenced writes what is new of a request. First every partition says what it
// knows, and nothing is written unless all agree; then what is new is appended under
// the guards that they gave. After a crash between the two, and between partitions,
// the producer's retry finds what was written.
func (b *Backend) writeSequenced(ctx context.Context, topic *picture.Topic, number int64, w *sequencedWrite) {
	var ended []*partitionAppend
	pending := make([]*sequencedShare, len(w.shares))
	for i, s := range w.shares {
		pending[i] = newSequencedShare(s, w.records)
	}
	for round := 1; len(pending) > 0; round++ {
		appends, err := b.prepareShares(ctx, topic, number, w.records, pending)
		if err != nil {
			ended = append(ended, &partitionAppend{partitionCall: partitionCall{err: err}})
			break
		}
		b.appendAll(ctx, topic, appends)
		var stale []*sequencedShare
		for _, s := range pending {
			switch {
			case s.append == nil:
				s.place(w.placed, 0)
			case s.append.err == nil:
				s.place(w.placed, s.append.appended.GetBaseOffset())
				b.countSequenced(topic, w.records, s)
				ended = append(ended, s.append)
			case errs.Reason(s.append.err) == errs.Reason(ErrProducerBusy) && round < maxPrepares:
				stale = append(stale, s)
			default:
				ended = append(ended, s.append)
			}
		}
		pending = stale
	}
	if w.result.Err = verdict(ended); w.result.Err == nil {
		w.result.Placed = w.placed
	}
}

// stick chooses one partition for all records without keys of a producer: a retry
// must find the partition again.
func stick(topic *picture.Topic, producer string) func() int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(producer))
	partition := int32(h.Sum32() % uint32(len(topic.Partitions)))
	return func() int32 { return partition }
}

// resolveProducer returns the number of a producer id, which belongs to the
// caller's key from its first use on.
func (b *Backend) resolveProducer(ctx context.Context, caller grants.Caller, id string) (int64, error) {
	var resp *coordinatorv1.ResolveProducerResponse
	err := b.producers(ctx, func(c coordinatorv1.ProducerServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.ResolveProducer(ctx, &coordinatorv1.ResolveProducerRequest{Owner: caller.ID(), ProducerId: id}, opts...)
		return err
	})
	return resp.GetNumber(), err
}

// A sequencedShare is a share of a producer's records on its way.
type sequencedShare struct {
	partitionCall
	*share
	sequences []int64

	prepared *storagev1.PrepareResponse_PartitionPrepared
	// fresh are the positions in the request of the records to append, whose
	// sequences follow one another; append is nil when there are none.
	fresh  []int
	append *partitionAppend
}

func newSequencedShare(s *share, records []NewRecord) *sequencedShare {
	out := &sequencedShare{partitionCall: partitionCall{partition: s.partition}, share: s, sequences: make([]int64, len(s.records))}
	for i, at := range s.records {
		out.sequences[i] = records[at].Sequence
	}
	return out
}

// prepareShares has every partition check its share, and builds the appends of
// what is new.
func (b *Backend) prepareShares(ctx context.Context, topic *picture.Topic, number int64, records []NewRecord, shares []*sequencedShare) ([]*partitionAppend, error) {
	b.askShares(ctx, topic, number, shares)
	for _, s := range shares {
		if s.err != nil {
			return nil, s.err
		}
	}
	var appends []*partitionAppend
	for _, s := range shares {
		if err := s.build(topic, records, number, b.now()); err != nil {
			return nil, err
		}
		if s.append != nil {
			appends = append(appends, s.append)
		}
	}
	return appends, nil
}

// askShares has every partition check its share.
func (b *Backend) askShares(ctx context.Context, topic *picture.Topic, number int64, shares []*sequencedShare) {
	callAll(ctx, b, topic, shares, func(ctx context.Context, seen *picture.Picture, topic *picture.Topic, node string, shares []*sequencedShare) {
		b.prepareOnNode(ctx, seen, topic, node, number, shares)
	})
}

// build makes the append of what is new of a share that was checked.
func (s *sequencedShare) build(topic *picture.Topic, records []NewRecord, number int64, now time.Time) error {
	s.fresh, s.append = s.fresh[:0], nil
	for i, offset := range s.prepared.GetDuplicateOffsets() {
		if at := s.share.records[i]; offset == unwritten && (len(s.fresh) == 0 || records[at].Sequence == records[s.fresh[len(s.fresh)-1]].Sequence+1) {
			s.fresh = append(s.fresh, at)
		}
	}
	if len(s.fresh) == 0 {
		return nil
	}
	batches, err := buildBatches(topic, records, s.fresh, s.bytes, now, &numbering{number: number, sequence: records[s.fresh[0]].Sequence})
	if err != nil {
		return err
	}
	s.append = &partitionAppend{
		partitionCall: partitionCall{partition: s.partitionCall.partition},
		batches:       batches, records: len(s.fresh), guard: s.prepared.GetGuard(),
	}
	return nil
}

// prepareOnNode asks one node. To ask changes nothing, so whatever fails on the
// way may be tried again.
func (b *Backend) prepareOnNode(ctx context.Context, seen *picture.Picture, topic *picture.Topic, node string, number int64, shares []*sequencedShare) {
	req := &storagev1.PrepareRequest{
		Purpose:    storagev1.Purpose_PURPOSE_SEQUENCED_APPEND,
		ProducerId: recordbatch.WideProducer | number,
		Partitions: make([]*storagev1.PrepareRequest_PartitionPrepare, len(shares)),
	}
	for i, s := range shares {
		req.Partitions[i] = &storagev1.PrepareRequest_PartitionPrepare{
			Partition: &storagev1.Partition{TopicId: topic.ID[:], Partition: s.partitionCall.partition},
			Sequences: s.sequences,
		}
	}
	var resp *storagev1.PrepareResponse
	err := b.reachStorage(ctx, seen, node, func(c storagev1.StorageServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.Prepare(ctx, req, opts...)
		return err
	})
	if err == nil && len(resp.GetPrepared()) != len(shares) {
		err = errs.New(errs.Internal, "STORAGE_REFUSED", "node %q answered %d of %d checks", node, len(resp.GetPrepared()), len(shares))
	}
	for i, s := range shares {
		about := subject{topic.Name, s.partitionCall.partition}
		s.prepared, s.err, s.retry = nil, nil, false
		switch {
		case err != nil && errs.KindOf(err) == errs.Unavailable:
			s.err, s.retry = about.noLeader().Because(err), true
		case err != nil:
			s.err = err
		case resp.Prepared[i].GetError() != nil:
			refusal := resp.Prepared[i].GetError()
			s.err, s.retry = about.partitionError(refusal), elsewhere(refusal)
			s.route.refused(refusal)
		case len(resp.Prepared[i].GetDuplicateOffsets()) != len(s.sequences):
			s.err = errs.New(errs.Internal, "STORAGE_REFUSED", "node %q answered for %d of %d records",
				node, len(resp.Prepared[i].GetDuplicateOffsets()), len(s.sequences))
		default:
			s.prepared = resp.Prepared[i]
		}
	}
}

// place fills in where the records stand, given the offset of the first that was
// appended. A second record with the sequence of one of those is a duplicate.
func (s *sequencedShare) place(placed []Placed, base int64) {
	var first int64
	for i, at := range s.share.records {
		p := &placed[at]
		if offset := s.prepared.GetDuplicateOffsets()[i]; offset != unwritten {
			p.Offset, p.Duplicate = offset, true
			continue
		}
		if at == s.fresh[0] {
			first = s.sequences[i]
		}
		p.Offset = base + s.sequences[i] - first
		_, appended := slices.BinarySearch(s.fresh, at)
		p.Duplicate = !appended
	}
}

// countSequenced counts what was written of a share.
func (b *Backend) countSequenced(topic *picture.Topic, records []NewRecord, s *sequencedShare) {
	traffic := b.traffic.of(topic.ID)
	traffic.RecordsProduced.Add(int64(len(s.fresh)))
	for _, at := range s.fresh {
		traffic.BytesProduced.Add(int64(len(records[at].Key) + len(records[at].Value)))
	}
}
