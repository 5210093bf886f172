package shard

import (
	"context"
	"fmt"
	"sync"
	"time"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/peer"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/view"
)

// StorageLog is the Log on the storage nodes: a shard is the partition of the
// same number of one topic.
type StorageLog struct {
	view  *view.View
	peers *peer.Peers
	topic string

	mu struct {
		sync.Mutex
		// hints are the leaders that storage nodes named, where that is newer
		// than the picture.
		hints map[int32]hint
		// tries counts attempts without a known leader, to try one replica
		// after the other.
		tries int
	}
}

type hint struct {
	node  string
	epoch int32
}

var _ Log = (*StorageLog)(nil)

// NewStorageLog returns the log of a topic's partitions.
func NewStorageLog(v *view.View, peers *peer.Peers, topic string) *StorageLog {
	l := &StorageLog{view: v, peers: peers, topic: topic}
	l.mu.hints = make(map[int32]hint)
	return l
}

// readBytes is how much one read asks for.
const readBytes = 1 << 20

// Fence raises the epoch in the partition's own log.
func (l *StorageLog) Fence(ctx context.Context, shard int32, epoch int64) (int64, error) {
	partition, node, err := l.find(shard)
	if err != nil {
		return 0, err
	}
	replicas, err := l.peers.Replicas(ctx, node)
	if err != nil {
		return 0, l.away(shard, err)
	}
	resp, err := replicas.Fence(ctx, &storagev1.FenceRequest{Partition: partition, OwnerEpoch: epoch})
	if err != nil {
		// To raise an epoch twice is to raise it once.
		return 0, l.away(shard, err)
	}
	if err := l.failure(shard, resp.Error); err != nil {
		return 0, err
	}
	return resp.LogEndOffset, nil
}

// Read returns the records of some batches.
func (l *StorageLog) Read(ctx context.Context, shard int32, offset int64) ([]Record, int64, error) {
	partition, node, err := l.find(shard)
	if err != nil {
		return nil, 0, err
	}
	storage, err := l.peers.Storage(ctx, node)
	if err != nil {
		return nil, 0, l.away(shard, err)
	}
	resp, err := storage.Fetch(ctx, &storagev1.FetchRequest{
		Isolation: storagev1.Isolation_ISOLATION_READ_UNCOMMITTED,
		MaxBytes:  readBytes,
		Fetches: []*storagev1.FetchRequest_PartitionFetch{{
			// The log may begin above 0: clamped, the first read finds where.
			Partition: partition, Offset: offset, MaxBytes: readBytes, Clamp: true,
		}},
	})
	if err != nil {
		return nil, 0, l.away(shard, err)
	}
	if len(resp.Fetched) != 1 {
		return nil, 0, fmt.Errorf("%w: %d answers to one fetch", errNotNow, len(resp.Fetched))
	}
	fetched := resp.Fetched[0]
	if err := l.failure(shard, fetched.Error); err != nil {
		return nil, 0, err
	}
	records, next, err := decode(fetched.Batches, offset)
	if err != nil {
		return nil, 0, err
	}
	return records, max(next, fetched.NextOffset), nil
}

// Append writes a batch under the owner's epoch.
func (l *StorageLog) Append(ctx context.Context, shard int32, epoch int64, records []Record) error {
	batch, err := encode(time.Now().UnixMilli(), records)
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	partition, node, err := l.find(shard)
	if err != nil {
		return err
	}
	storage, err := l.peers.Storage(ctx, node)
	if err != nil {
		return l.away(shard, err)
	}
	resp, err := storage.Append(ctx, &storagev1.AppendRequest{
		Origin: storagev1.Origin_ORIGIN_COORDINATOR,
		Appends: []*storagev1.AppendRequest_PartitionAppend{{
			Partition: partition, Batches: batch, OwnerEpoch: &epoch,
		}},
	})
	if err != nil {
		_ = l.away(shard, err)
		return fmt.Errorf("append to shard %d on %s: %w", shard, node, err)
	}
	if len(resp.Appended) != 1 {
		return fmt.Errorf("append to shard %d on %s: %d answers", shard, node, len(resp.Appended))
	}
	return l.failure(shard, resp.Appended[0].Error)
}

// find returns a shard's partition and the node to ask: the leader where it is
// known, or else one replica after the other, since each may name the leader.
func (l *StorageLog) find(shard int32) (*storagev1.Partition, string, error) {
	topic := l.view.Topic(l.topic)
	if topic == nil || int(shard) >= len(topic.Partitions) {
		return nil, "", fmt.Errorf("%w: topic %s is not there", errNotNow, l.topic)
	}
	partition := &storagev1.Partition{TopicId: topic.Id, Partition: shard}
	node, epoch := l.view.Leader(rows.TopicID(topic.Id), shard)
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.mu.hints[shard]; ok {
		if node == "" || h.epoch > epoch {
			return partition, h.node, nil
		}
		delete(l.mu.hints, shard)
	}
	if node == "" {
		replicas := topic.Partitions[shard].Nodes
		node = replicas[l.mu.tries%len(replicas)]
		l.mu.tries++
	}
	return partition, node, nil
}

// failure tells which kind an answer's error is of; nil when it has none.
func (l *StorageLog) failure(shard int32, e *storagev1.PartitionError) error {
	if e == nil || e.Code == storagev1.ErrorCode_ERROR_CODE_UNSPECIFIED {
		return nil
	}
	l.learn(shard, e)
	kind := errRefused
	switch e.Code {
	case storagev1.ErrorCode_ERROR_CODE_FENCED_OWNER:
		kind = errFenced
	case storagev1.ErrorCode_ERROR_CODE_NOT_LEADER,
		storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE,
		storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION,
		storagev1.ErrorCode_ERROR_CODE_OVERLOADED,
		storagev1.ErrorCode_ERROR_CODE_NO_SPACE,
		storagev1.ErrorCode_ERROR_CODE_DAMAGED:
		kind = errNotNow
	case storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME,
		storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED:
		// A write that failed may be on disk in part or whole.
		return fmt.Errorf("shard %d: %s: %s", shard, e.Code, e.Message)
	}
	return fmt.Errorf("shard %d: %w: %s: %s", shard, kind, e.Code, e.Message)
}

// learn keeps the leader that a node names, and drops one that does not lead.
func (l *StorageLog) learn(shard int32, e *storagev1.PartitionError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mu.hints, shard)
	if e.Code == storagev1.ErrorCode_ERROR_CODE_NOT_LEADER && e.Leader.GetNode() != "" {
		l.mu.hints[shard] = hint{node: e.Leader.Node, epoch: e.Leader.Epoch}
	}
}

// away forgets the hint to a node that does not answer.
func (l *StorageLog) away(shard int32, err error) error {
	l.mu.Lock()
	delete(l.mu.hints, shard)
	l.mu.Unlock()
	return fmt.Errorf("%w: %w", errNotNow, err)
}
