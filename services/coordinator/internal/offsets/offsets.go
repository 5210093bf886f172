package offsets

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/group"
	"github.com/sluiceio/sluice/services/coordinator/internal/meta"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// MaxMetadata limits what a client may keep with an offset, in bytes, as Kafka
// does by default.
const MaxMetadata = 4096

// Topics is what offsets are checked against.
type Topics interface {
	// TopicByID returns a topic, or nil.
	TopicByID(id rows.TopicID) *coordinatorv1.Topic
	// Sync waits until TopicByID knows every topic that was made before the
	// call.
	Sync(ctx context.Context) error
	// Removals counts topics that were removed.
	Removals() uint64
	// Changed is closed with the next change of the topics or of anything else.
	Changed() <-chan struct{}
}

// Held is the part of a shard's state that offsets are about: they belong to
// groups.
type Held struct {
	Groups  *group.State
	Offsets *State
}

// Offsets commits and returns offsets.
type Offsets struct {
	shards *shard.Part[Held]
	topics Topics
}

// New returns the offsets in some shards.
func New(shards *shard.Part[Held], topics Topics) *Offsets {
	return &Offsets{shards: shards, topics: topics}
}

// Commit stores offsets of a group, all or none, and returns when they are on
// disk. An invalid one is refused before anything is stored. A group that is
// nobody's becomes the caller's; group.ErrNotOwner when it is another's.
// group.ErrStaleMember when member is not nil and the partitions are not its own.
func (o *Offsets) Commit(ctx context.Context, caller group.Caller, name string, member *group.Claimant, offsets []*coordinatorv1.CommittedOffset) error {
	number, err := o.shardOf(name)
	if err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	partitions := make([]partition, len(offsets))
	records := make([]shard.Record, len(offsets))
	for i, c := range offsets {
		p, err := o.check(ctx, c)
		if err != nil {
			return err
		}
		partitions[i] = p
		records[i] = shard.Record{Key: key(name, p), Value: value(c, now)}
	}
	if len(records) == 0 {
		return nil
	}
	return o.shards.Write(ctx, number, func(h Held) ([]shard.Record, error) {
		claim, err := h.Groups.Claim(caller, name)
		if err != nil {
			return nil, err
		}
		for _, p := range partitions {
			if member == nil {
				break
			}
			if err := h.Groups.CheckHolds(caller, name, *member, p.topic, p.number); err != nil {
				return nil, err
			}
		}
		return append(claim, records...), nil
	})
}

// check refuses what cannot be committed.
func (o *Offsets) check(ctx context.Context, c *coordinatorv1.CommittedOffset) (partition, error) {
	id, ok := rows.ParseTopicID(c.TopicId)
	if !ok {
		return partition{}, errs.New(errs.InvalidArgument, "INVALID_TOPIC_ID", "a topic id has 16 bytes, not %d", len(c.TopicId))
	}
	topic := o.topics.TopicByID(id)
	if topic == nil {
		// Perhaps it was made this very moment.
		if err := o.topics.Sync(ctx); err != nil {
			return partition{}, err
		}
		if topic = o.topics.TopicByID(id); topic == nil {
			return partition{}, meta.ErrTopicNotFound.WithMessage("the topic with the id %s does not exist", id)
		}
	}
	switch {
	case c.Partition < 0 || int(c.Partition) >= len(topic.Partitions):
		return partition{}, errs.New(errs.InvalidArgument, "INVALID_PARTITION",
			"topic %q has %d partitions, there is no %d", topic.Name, len(topic.Partitions), c.Partition)
	case c.Offset < 0:
		return partition{}, errs.New(errs.InvalidArgument, "INVALID_OFFSET", "offset %d is below 0", c.Offset)
	case len(c.Metadata) > MaxMetadata:
		return partition{}, errs.New(errs.InvalidArgument, "METADATA_TOO_LARGE",
			"the metadata of an offset is at most %d bytes, not %d", MaxMetadata, len(c.Metadata))
	}
	return partition{topic: id, number: c.Partition}, nil
}

// value is an offset as it is stored. What is not said is filled in: no leader
// has the epoch 0, and an offset without an end never expires.
func value(c *coordinatorv1.CommittedOffset, now int64) *persistv1.ShardValue {
	offset := &persistv1.GroupOffset{
		GroupType:    persistv1.GroupType_GROUP_TYPE_SLUICE,
		Offset:       c.Offset,
		LeaderEpoch:  c.LeaderEpoch,
		Metadata:     c.Metadata,
		CommitTimeMs: c.CommitTimeMs,
		ExpireTimeMs: c.ExpireTimeMs,
	}
	if offset.LeaderEpoch <= 0 {
		offset.LeaderEpoch = -1
	}
	if offset.CommitTimeMs <= 0 {
		offset.CommitTimeMs = now
	}
	if offset.ExpireTimeMs <= 0 {
		offset.ExpireTimeMs = -1
	}
	return &persistv1.ShardValue{Kind: &persistv1.ShardValue_GroupOffset{GroupOffset: offset}}
}

// Fetch returns a group's committed offsets, on the topics given or on all,
// ordered by topic and partition. group.ErrNotOwner.
func (o *Offsets) Fetch(ctx context.Context, caller group.Caller, name string, topics [][]byte) ([]*coordinatorv1.CommittedOffset, error) {
	number, err := o.shardOf(name)
	if err != nil {
		return nil, err
	}
	want := make(map[rows.TopicID]bool, len(topics))
	for _, t := range topics {
		id, ok := rows.ParseTopicID(t)
		if !ok {
			return nil, errs.New(errs.InvalidArgument, "INVALID_TOPIC_ID", "a topic id has 16 bytes, not %d", len(t))
		}
		want[id] = true
	}
	var found []*coordinatorv1.CommittedOffset
	err = o.shards.Read(ctx, number, func(h Held) error {
		found = committed(h.Offsets.groups[name], want)
		return h.Groups.Check(caller, name)
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// List returns the committed offsets of the groups of all shards that this
// coordinator owns, ordered by group.
func (o *Offsets) List(ctx context.Context) ([]*coordinatorv1.ListOffsetsResponse_GroupOffsets, error) {
	var list []*coordinatorv1.ListOffsetsResponse_GroupOffsets
	for _, number := range o.shards.Owned() {
		err := o.shards.Read(ctx, number, func(h Held) error {
			for name, offsets := range h.Offsets.groups {
				if found := committed(offsets, nil); len(found) > 0 {
					list = append(list, &coordinatorv1.ListOffsetsResponse_GroupOffsets{
						Group: name, Owner: h.Groups.Owner(name), Offsets: found,
					})
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, shard.ErrNotCoordinator) {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b *coordinatorv1.ListOffsetsResponse_GroupOffsets) int {
		return cmp.Compare(a.Group, b.Group)
	})
	return list, nil
}

// committed returns offsets as others see them. Those on a deleted topic are
// among them until they are swept: to leave out what the picture does not have
// could leave out a topic that is newer than the picture.
func committed(offsets map[partition]*persistv1.GroupOffset, want map[rows.TopicID]bool) []*coordinatorv1.CommittedOffset {
	found := make([]*coordinatorv1.CommittedOffset, 0, len(offsets))
	for p, c := range offsets {
		if len(want) > 0 && !want[p.topic] {
			continue
		}
		found = append(found, &coordinatorv1.CommittedOffset{
			TopicId:      p.topic[:],
			Partition:    p.number,
			Offset:       c.Offset,
			LeaderEpoch:  c.LeaderEpoch,
			Metadata:     c.Metadata,
			CommitTimeMs: c.CommitTimeMs,
			ExpireTimeMs: c.ExpireTimeMs,
		})
	}
	slices.SortFunc(found, func(a, b *coordinatorv1.CommittedOffset) int {
		return cmp.Or(bytes.Compare(a.TopicId, b.TopicId), cmp.Compare(a.Partition, b.Partition))
	})
	return found
}

func (o *Offsets) shardOf(name string) (int32, error) {
	if err := group.CheckName(name); err != nil {
		return 0, err
	}
	number, ok := o.shards.Of(name)
	if !ok {
		return 0, shard.ErrNotCoordinator
	}
	return number, nil
}
