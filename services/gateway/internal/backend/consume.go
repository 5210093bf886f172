package backend

import (
	"context"
	"time"

	"google.golang.org/grpc"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/gateway/internal/picture"
	"github.com/sluiceio/sluice/services/kit/errs"
)

const (
	// DefaultFetchRecords is how many records a read returns that does not say.
	DefaultFetchRecords = 100
	// DefaultFetchBytes is how many bytes a read returns that does not say.
	DefaultFetchBytes = 1 << 20
)

// Read is what to read of a partition.
type Read struct {
	Topic     string
	Partition int32
	// 0 and up.
	Offset int64
	// 1 and up; more than the limits allow counts as what they allow.
	MaxRecords int
	MaxBytes   int
	// How long to wait for a first record; more than MaxWait counts as that.
	Wait time.Duration
}

// Record is a record as it was read. Its bytes are shared and must not be
// changed.
type Record struct {
	Offset      int64
	TimestampMs int64
	// Nil is no key.
	Key []byte
	// Empty for null too.
	Value []byte
}

// Fetched is what was read.
type Fetched struct {
	Records []Record
	// Where to go on; it steps over offsets that hold nothing for readers.
	NextOffset    int64
	HighWatermark int64
}

// Consume reads a partition from an offset, up to the last stable offset. An
// offset below the first kept record is clamped to it; one past the end gives no
// records and is the next offset itself.
func (b *Backend) Consume(ctx context.Context, caller grants.Caller, r Read) (Fetched, error) {
	topic, err := b.readablePartition(ctx, caller, r.Topic, r.Partition)
	if err != nil {
		return Fetched{}, err
	}
	return b.consume(ctx, caller, topic, r)
}

// Await waits until a read would find a first record, for as long as the read
// says, and returns without it. What it was to return is not held meanwhile.
func (b *Backend) Await(ctx context.Context, caller grants.Caller, r Read) error {
	topic, err := b.readablePartition(ctx, caller, r.Topic, r.Partition)
	if err != nil {
		return err
	}
	return b.await(ctx, caller, topic, r)
}

func (b *Backend) await(ctx context.Context, caller grants.Caller, topic *picture.Topic, r Read) error {
	if err := b.quotas.mayConsume(ctx, caller); err != nil {
		return err
	}
	wait := min(r.Wait, MaxWait)
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout+wait)
	defer cancel()
	_, err := b.fetchWaiting(ctx, topic, r.Partition, r.Offset, 1, wait)
	return err
}

func (b *Backend) readablePartition(ctx context.Context, caller grants.Caller, name string, partition int32) (*picture.Topic, error) {
	topic, err := b.readable(ctx, caller, name)
	if err != nil {
		return nil, err
	}
	if partition < 0 || int(partition) >= len(topic.Partitions) {
		return nil, unknownPartition(topic, partition)
	}
	return topic, nil
}

func (b *Backend) consume(ctx context.Context, caller grants.Caller, topic *picture.Topic, r Read) (Fetched, error) {
	switch {
	case r.Offset < 0:
		return Fetched{}, invalid("offset must be 0 or more, got %d", r.Offset)
	case r.MaxRecords < 1:
		return Fetched{}, invalid("max_records must be 1 or more, got %d", r.MaxRecords)
	case r.MaxBytes < 1:
		return Fetched{}, invalid("max_bytes must be 1 or more, got %d", r.MaxBytes)
	case r.Wait < 0:
		return Fetched{}, invalid("max_wait_ms must be 0 or more, got %d", r.Wait.Milliseconds())
	}
	r.MaxRecords = min(r.MaxRecords, b.limits.FetchRecords)
	r.MaxBytes = min(r.MaxBytes, b.limits.FetchBytes)
	r.Wait = min(r.Wait, MaxWait)
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout+r.Wait)
	defer cancel()
	if err := b.quotas.mayConsume(ctx, caller); err != nil {
		return Fetched{}, err
	}

	reader := newBatchReader(r)
	for wait := r.Wait; ; wait = 0 {
		got, err := b.fetchWaiting(ctx, topic, r.Partition, reader.next, reader.want(), wait)
		before := reader.next
		if err == nil {
			reader.highWatermark = got.GetHighWatermark()
			if err = reader.take(got); err != nil {
				err = errs.New(errs.Internal, "UNREADABLE_BATCH",
					"partition %d of topic %q: no records can be read at offset %d", r.Partition, topic.Name, reader.next).Because(err)
			}
		}
		if err != nil && len(reader.records) == 0 {
			return Fetched{}, err
		}
		// What was read before an error stands: the next read gets the error.
		if err != nil || reader.full || reader.next == before || reader.next >= got.GetLastStableOffset() {
			break
		}
	}

	b.quotas.consumed(ctx, caller, int64(reader.bytes))
	traffic := b.traffic.of(topic.ID)
	traffic.RecordsConsumed.Add(int64(len(reader.records)))
	traffic.BytesConsumed.Add(int64(reader.bytes))
	return Fetched{Records: reader.records, NextOffset: reader.next, HighWatermark: reader.highWatermark}, nil
}

// fetchWaiting is fetch, and gives up waiting when the backend is drained.
func (b *Backend) fetchWaiting(ctx context.Context, topic *picture.Topic, partition int32, offset int64, maxBytes int, wait time.Duration) (*storagev1.FetchResponse_PartitionFetched, error) {
	if wait > 0 && b.draining.Err() == nil {
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(b.draining, cancel)()
		got, err := b.fetch(waiting, topic, partition, offset, maxBytes, wait)
		if err == nil || b.draining.Err() == nil {
			return got, err
		}
	}
	return b.fetch(ctx, topic, partition, offset, maxBytes, 0)
}

// fetch reads whole batches from the leader of a partition.
func (b *Backend) fetch(ctx context.Context, topic *picture.Topic, partition int32, offset int64, maxBytes int, wait time.Duration) (*storagev1.FetchResponse_PartitionFetched, error) {
	req := &storagev1.FetchRequest{
		Isolation: storagev1.Isolation_ISOLATION_READ_COMMITTED,
		MaxWaitMs: int32(wait.Milliseconds()),
		MinBytes:  1,
		MaxBytes:  int32(maxBytes),
		Fetches: []*storagev1.FetchRequest_PartitionFetch{{
			Partition: &storagev1.Partition{TopicId: topic.ID[:], Partition: partition},
			Offset:    offset,
			MaxBytes:  int32(maxBytes),
			Clamp:     true,
		}},
	}
	about := subject{topic.Name, partition}
	var way route
	for chase := b.pursue(); ; {
		seen := b.watcher.Current()
		current := seen.TopicByID(topic.ID)
		if current == nil {
			return nil, ErrTopicNotFound.WithMessage("topic %q does not exist", topic.Name)
		}
		var resp *storagev1.FetchResponse
		err := b.reachStorage(ctx, seen, way.next(current.Partitions[partition]), func(c storagev1.StorageServiceClient, opts ...grpc.CallOption) (err error) {
			resp, err = c.Fetch(ctx, req, opts...)
			return err
		})
		switch {
		case err != nil && errs.KindOf(err) == errs.Unavailable:
			// Reading twice does no harm.
			err = about.noLeader().Because(err)
		case err != nil:
			return nil, err
		case len(resp.GetFetched()) != 1:
			return nil, errs.New(errs.Internal, "STORAGE_REFUSED", "storage answered %d fetches, expected 1", len(resp.GetFetched()))
		default:
			got := resp.GetFetched()[0]
			refusal := got.GetError()
			if refusal == nil {
				return got, nil
			}
			if err = about.partitionError(refusal); !elsewhere(refusal) {
				return nil, err
			}
			way.refused(refusal)
		}
		if !way.atOnce() && !chase.again(ctx, seen) {
			return nil, err
		}
	}
}
