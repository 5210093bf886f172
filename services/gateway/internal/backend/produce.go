package backend

import (
	"context"
	"time"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/gateway/internal/picture"
	"github.com/sluiceio/sluice/services/gateway/internal/topicconf"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// AnyPartition lets the key of a record, or chance, choose its partition.
const AnyPartition = -1

// maxBatchBytes is how large a batch gets that is built here, unless it is one
// record that is larger.
const maxBatchBytes = 1 << 20

// NewRecord is a record to write. Its bytes are copied before Produce returns.
type NewRecord struct {
	// Nil is no key.
	Key []byte
	// Empty is written as null, which is Kafka's tombstone.
	Value []byte
	// AnyPartition or 0 and up.
	Partition int32
	// Sequence is the record's place in the producer's sequence on the partition,
	// if Sequenced.
	Sequence  int64
	Sequenced bool
}

// Placed is where a record stands.
type Placed struct {
	Partition int32
	Offset    int64
	// Duplicate tells that it had been written before, by an earlier request or as
	// an earlier record of this one.
	Duplicate bool
}

// WriteRequest is what one request writes to a topic.
type WriteRequest struct {
	Records []NewRecord
	// Producer is the id of an idempotent producer, whose records are all
	// sequenced; nil is none.
	Producer *string
}

// WriteResult is what became of one request: where each record stands, or why it
// failed.
type WriteResult struct {
	Placed []Placed
	Err    error
}

// Produce writes records and returns where each stands once all are on disk. The
// whole request is checked before anything is written.
func (b *Backend) Produce(ctx context.Context, caller grants.Caller, topicName string, request WriteRequest) ([]Placed, error) {
	result := b.ProduceAll(ctx, caller, topicName, []WriteRequest{request})[0]
	return result.Placed, result.Err
}

// ProduceAll does for several requests of one caller to one topic what Produce
// does for one, in their order, with one write for each partition: requests that
// waited for the same topic share a sync of the disk. Each is checked by itself,
// and one that is refused takes no other along. There is a result for each.
//
// What a request of a producer may write depends on what those before it have
// written; those of one producer that follow one another are written together where
// that makes no difference.
func (b *Backend) ProduceAll(ctx context.Context, caller grants.Caller, topicName string, requests []WriteRequest) []WriteResult {
	results := make([]WriteResult, len(requests))
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	topic, err := b.writable(ctx, caller, topicName)
	if err != nil {
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	for from := 0; from < len(requests); {
		to := from + 1
		for to < len(requests) && sameProducer(requests[from].Producer, requests[to].Producer) {
			to++
		}
		if requests[from].Producer != nil {
			b.produceSequenced(ctx, caller, topic, requests[from:to], results[from:to])
		} else {
			b.produceTogether(ctx, caller, topic, requests[from:to], results[from:to])
		}
		from = to
	}
	return results
}

func sameProducer(a, b *string) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// produceTogether writes requests without producers with one append for each
// partition.
func (b *Backend) produceTogether(ctx context.Context, caller grants.Caller, topic *picture.Topic, requests []WriteRequest, results []WriteResult) {
	traffic := b.traffic.of(topic.ID)
	at := b.now()
	var all appendSet
	writes := make([]*write, len(requests))
	for i, request := range requests {
		w, err := b.prepare(topic, traffic, request, at)
		if err == nil {
			err = b.quotas.produce(ctx, caller, w.bytes())
		}
		if err != nil {
			results[i].Err = err
			continue
		}
		writes[i] = w
		all.join(w)
	}
	if len(all.appends) > 0 {
		b.appendAll(ctx, topic, all.appends)
	}
	for i, w := range writes {
		if w == nil {
			continue
		}
		if results[i].Err = verdict(w.appends); results[i].Err != nil {
			continue
		}
		results[i].Placed = w.place()
		traffic.RecordsProduced.Add(int64(len(w.placed)))
		traffic.BytesProduced.Add(w.bytes())
	}
}

func (b *Backend) writable(ctx context.Context, caller grants.Caller, name string) (*picture.Topic, error) {
	if err := caller.Check(registryv1.Action_ACTION_WRITE, name); err != nil {
		return nil, err
	}
	return b.topic(ctx, name)
}

// A write is one request on its way: a share of it for each partition that it
// touches.
type write struct {
	placed []Placed
	shares []*share
	// Where each share goes, and after how many records of other requests.
	appends []*partitionAppend
	after   []int
}

// prepare checks a request and builds its batches.
func (b *Backend) prepare(topic *picture.Topic, traffic *TopicTraffic, request WriteRequest, at time.Time) (*write, error) {
	if err := b.checkRecords(topic, request); err != nil {
		return nil, err
	}
	records := request.Records
	w := &write{placed: make([]Placed, len(records))}
	w.shares = divide(topic, spread(topic, traffic), records, w.placed)
	for _, s := range w.shares {
		var err error
		if s.batches, err = buildBatches(topic, records, s.records, s.bytes, at, nil); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// place fills in the offsets once all was written.
func (w *write) place() []Placed {
	for i, s := range w.shares {
		base := w.appends[i].appended.GetBaseOffset() + int64(w.after[i])
		for j, at := range s.records {
			w.placed[at].Offset = base + int64(j)
		}
	}
	return w.placed
}

// bytes is the size of the keys and values.
func (w *write) bytes() int64 {
	sum := 0
	for _, s := range w.shares {
		sum += s.bytes
	}
	return int64(sum)
}

// An appendSet gathers the writes of several requests, one append for each
// partition.
type appendSet struct {
	appends []*partitionAppend
	// Nil until a second write joins: one alone has each partition once.
	byPartition map[int32]*partitionAppend
}

// join adds a write behind those that joined before it.
func (set *appendSet) join(w *write) {
	if len(set.appends) > 0 && set.byPartition == nil {
		set.byPartition = make(map[int32]*partitionAppend, len(set.appends))
		for _, a := range set.appends {
			set.byPartition[a.partition] = a
		}
	}
	w.appends = make([]*partitionAppend, len(w.shares))
	w.after = make([]int, len(w.shares))
	for i, s := range w.shares {
		a := set.byPartition[s.partition]
		if a == nil {
			a = &partitionAppend{partitionCall: partitionCall{partition: s.partition}, batches: s.batches}
			set.appends = append(set.appends, a)
			if set.byPartition != nil {
				set.byPartition[s.partition] = a
			}
		} else {
			a.batches = append(a.batches, s.batches...)
		}
		w.appends[i], w.after[i] = a, a.records
		a.records += len(s.records)
	}
}

// checkRecords refuses what storage would, so that no partition of a request is
// written when another cannot be.
func (b *Backend) checkRecords(topic *picture.Topic, request WriteRequest) error {
	records := request.Records
	if len(records) == 0 {
		return invalid("records must have at least one record")
	}
	if len(records) > b.limits.ProduceRecords {
		return invalid("records must have at most %d records, got %d", b.limits.ProduceRecords, len(records))
	}
	compacted := topicconf.Compacted(topic.Config)
	for i := range records {
		r := &records[i]
		switch size := len(r.Key) + len(r.Value); {
		case size > b.limits.RecordBytes:
			return ErrRecordTooLarge.WithMessage("records[%d] has %d bytes, the limit is %d", i, size, b.limits.RecordBytes)
		case r.Partition != AnyPartition && (r.Partition < 0 || int(r.Partition) >= len(topic.Partitions)):
			return unknownPartition(topic, r.Partition)
		case compacted && r.Key == nil:
			return ErrInvalidRecord.WithMessage("records[%d] must have a key: topic %q is compacted", i, topic.Name)
		case r.Sequenced && request.Producer == nil:
			return invalid("records[%d].sequence needs a producer_id beside records", i)
		case !r.Sequenced && request.Producer != nil:
			return invalid("records[%d].sequence must be given: the request has a producer_id", i)
		case r.Sequenced && r.Sequence < 0:
			return invalid("records[%d].sequence must be 0 or more, got %d", i, r.Sequence)
		}
	}
	return nil
}

func unknownPartition(topic *picture.Topic, partition int32) error {
	return ErrPartition.WithMessage("topic %q has partitions 0 to %d, got %d", topic.Name, len(topic.Partitions)-1, partition)
}

// A share is the records of a request that go to one partition, and the batches
// made of them.
type share struct {
	partition int32
	records   []int // positions in the request, ascending
	bytes     int   // of keys and values
	batches   []byte
}

// spread chooses partitions for records without keys, one after the other.
func spread(topic *picture.Topic, traffic *TopicTraffic) func() int32 {
	n := uint64(len(topic.Partitions))
	return func() int32 { return int32((traffic.spread.Add(1) - 1) % n) }
}

// divide chooses the partition of each record and notes it in placed. keyless
// chooses for records without keys.
func divide(topic *picture.Topic, keyless func() int32, records []NewRecord, placed []Placed) []*share {
	hash := topicconf.KeyHash(topic.Config)
	n := len(topic.Partitions)
	byPartition := make(map[int32]*share)
	var shares []*share
	var last *share
	for i := range records {
		r := &records[i]
		partition := r.Partition
		if partition == AnyPartition {
			if r.Key != nil {
				partition = hash.Partition(r.Key, n)
			} else {
				partition = keyless()
			}
		}
		placed[i].Partition = partition
		if last == nil || last.partition != partition {
			last = byPartition[partition]
		}
		if last == nil {
			last = &share{partition: partition}
			if len(shares) == 0 {
				// Often it is the only one.
				last.records = make([]int, 0, len(records)-i)
			}
			byPartition[partition] = last
			shares = append(shares, last)
		}
		last.records = append(last.records, i)
		last.bytes += len(r.Key) + len(r.Value)
	}
	return shares
}

// perRecord is about what a record takes in a batch beside key and value.
const perRecord = 16

// numbering names the producer of the batches that are built.
type numbering struct {
	number   int64
	sequence int64 // of the next record
}

// buildBatches makes the batches of some records, given by position, that go to
// one partition and have so many bytes, one after the other. by is nil for
// records without a producer.
func buildBatches(topic *picture.Topic, records []NewRecord, positions []int, bytes int, now time.Time, by *numbering) ([]byte, error) {
	limit, limited := topicconf.MaxMessageBytes(topic.Config)
	most := maxBatchBytes
	if limited {
		most = min(limit, most)
	}
	builder := recordbatch.NewBuilder(recordbatch.Options{
		SizeHint: min(bytes+len(positions)*perRecord+recordbatch.HeaderSize, maxBatchBytes+perRecord),
	})
	var batches []byte
	finish := func() error {
		if by != nil {
			producer := recordbatch.PackWide(by.number, by.sequence)
			builder.SetProducer(&producer)
			by.sequence += int64(builder.Count())
		}
		batch, err := builder.Finish()
		if err != nil {
			return err
		}
		if batches == nil {
			batches = batch
		} else {
			batches = append(batches, batch...)
		}
		return nil
	}
	at := now.UnixMilli()
	for _, i := range positions {
		r := &records[i]
		value := r.Value
		if len(value) == 0 {
			value = nil
		}
		if builder.Count() > 0 && builder.SizeWith(at, r.Key, value, nil) > most {
			if err := finish(); err != nil {
				return nil, err
			}
		}
		builder.Append(at, r.Key, value, nil)
		if limited && builder.Size() > limit {
			return nil, ErrRecordTooLarge.WithMessage(
				"records[%d] takes a batch of %d bytes, max.message.bytes of topic %q is %d", i, builder.Size(), topic.Name, limit)
		}
	}
	if err := finish(); err != nil {
		return nil, err
	}
	return batches, nil
}
