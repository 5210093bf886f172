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
}

// Placed is where a record stands.
type Placed struct {
	Partition int32
	Offset    int64
}

// Produce writes records and returns where each stands once all are on disk. The
// whole request is checked before anything is written.
func (b *Backend) Produce(ctx context.Context, caller grants.Caller, topicName string, records []NewRecord) ([]Placed, error) {
	if err := caller.Check(registryv1.Action_ACTION_WRITE, topicName); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	topic, err := b.topic(ctx, topicName)
	if err != nil {
		return nil, err
	}
	if err := b.checkRecords(topic, records); err != nil {
		return nil, err
	}
	traffic := b.traffic.of(topic.ID)
	placed := make([]Placed, len(records))
	shares := divide(topic, traffic, records, placed)
	appends := make([]*partitionAppend, len(shares))
	for i, s := range shares {
		batches, err := buildBatches(topic, records, s, b.now())
		if err != nil {
			return nil, err
		}
		appends[i] = &partitionAppend{partition: s.partition, batches: batches}
	}

	b.appendAll(ctx, topic, appends)
	if err := verdict(appends); err != nil {
		return nil, err
	}
	for i, s := range shares {
		for j, at := range s.records {
			placed[at].Offset = appends[i].appended.GetBaseOffset() + int64(j)
		}
	}
	traffic.RecordsProduced.Add(int64(len(records)))
	for i := range records {
		traffic.BytesProduced.Add(int64(len(records[i].Key) + len(records[i].Value)))
	}
	return placed, nil
}

// checkRecords refuses what storage would, so that no partition of a request is
// written when another cannot be.
func (b *Backend) checkRecords(topic *picture.Topic, records []NewRecord) error {
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
		}
	}
	return nil
}

func unknownPartition(topic *picture.Topic, partition int32) error {
	return ErrPartition.WithMessage("topic %q has partitions 0 to %d, got %d", topic.Name, len(topic.Partitions)-1, partition)
}

// A share is the records of a request that go to one partition.
type share struct {
	partition int32
	records   []int // positions in the request, ascending
	bytes     int   // of keys and values
}

// divide chooses the partition of each record and notes it in placed.
func divide(topic *picture.Topic, traffic *TopicTraffic, records []NewRecord, placed []Placed) []*share {
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
				partition = int32((traffic.spread.Add(1) - 1) % uint64(n))
			}
		}
		placed[i].Partition = partition
		if last == nil || last.partition != partition {
			last = byPartition[partition]
		}
		if last == nil {
			last = &share{partition: partition}
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

// buildBatches makes the batches of one share, one after the other.
func buildBatches(topic *picture.Topic, records []NewRecord, s *share, now time.Time) ([]byte, error) {
	limit, limited := topicconf.MaxMessageBytes(topic.Config)
	most := maxBatchBytes
	if limited {
		most = min(limit, most)
	}
	builder := recordbatch.NewBuilder(recordbatch.Options{
		SizeHint: min(s.bytes+len(s.records)*perRecord+recordbatch.HeaderSize, maxBatchBytes+perRecord),
	})
	var batches []byte
	finish := func() error {
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
	for _, i := range s.records {
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
