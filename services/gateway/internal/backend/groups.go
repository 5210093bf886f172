package backend

import (
	"context"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/gateway/internal/picture"
)

// maxGroup is the longest id of a group.
const maxGroup = 249

// ConsumeGroup reads a partition from the committed offset of a group, or from
// the start when nothing was committed. The offset of the read is not looked at.
func (b *Backend) ConsumeGroup(ctx context.Context, caller grants.Caller, group string, r Read) (Fetched, error) {
	topic, offset, err := b.committed(ctx, caller, group, r)
	if err != nil {
		return Fetched{}, err
	}
	r.Offset = offset
	return b.consume(ctx, caller, topic, r)
}

// AwaitGroup is Await from the committed offset of a group.
func (b *Backend) AwaitGroup(ctx context.Context, caller grants.Caller, group string, r Read) error {
	topic, offset, err := b.committed(ctx, caller, group, r)
	if err != nil {
		return err
	}
	r.Offset = offset
	return b.await(ctx, caller, topic, r)
}

// committed returns the topic of a read and the offset that a group has committed
// on its partition; 0 when it has committed nothing.
func (b *Backend) committed(ctx context.Context, caller grants.Caller, group string, r Read) (*picture.Topic, int64, error) {
	if err := checkGroup(group); err != nil {
		return nil, 0, err
	}
	topic, err := b.readablePartition(ctx, caller, r.Topic, r.Partition)
	if err != nil {
		return nil, 0, err
	}
	committed, err := b.fetchOffsets(ctx, caller, group, topic)
	if err != nil {
		return nil, 0, err
	}
	var offset int64
	for _, c := range committed {
		if c.GetPartition() == r.Partition && topic.ID == picture.TopicID(c.GetTopicId()) {
			offset = c.GetOffset()
		}
	}
	return topic, offset, nil
}

// Commit is an offset to commit.
type Commit struct {
	Topic     string
	Partition int32
	// Offset is the next one to read.
	Offset int64
	// Member, if not nil, commits only as long as the partition is its own.
	Member *Claimant
}

// Claimant is a member of a group, with the generation that it works on.
type Claimant struct {
	ID         string
	Generation int64
}

// CommitOffset records the next offset that a group will read, and returns once
// it is on disk. A group that is nobody's becomes the caller's.
func (b *Backend) CommitOffset(ctx context.Context, caller grants.Caller, group string, commit Commit) error {
	if err := checkGroup(group); err != nil {
		return err
	}
	topic, err := b.readablePartition(ctx, caller, commit.Topic, commit.Partition)
	if err != nil {
		return err
	}
	if commit.Offset < 0 {
		return invalid("offset must be 0 or more, got %d", commit.Offset)
	}
	req := &coordinatorv1.CommitOffsetsRequest{
		Caller: onBehalfOf(caller),
		Group:  group,
		Offsets: []*coordinatorv1.CommittedOffset{{
			TopicId:      topic.ID[:],
			Partition:    commit.Partition,
			Offset:       commit.Offset,
			LeaderEpoch:  -1,
			CommitTimeMs: b.now().UnixMilli(),
			// Offsets committed over HTTP do not expire.
			ExpireTimeMs: -1,
		}},
	}
	if commit.Member != nil {
		req.MemberId, req.Generation = commit.Member.ID, commit.Member.Generation
	}
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	return b.offsets(ctx, func(c coordinatorv1.OffsetServiceClient, opts ...grpc.CallOption) error {
		_, err := c.CommitOffsets(ctx, req, opts...)
		return err
	})
}

// Offsets are committed offsets by topic and partition.
type Offsets map[string]map[int32]int64

// CommittedOffsets returns the offsets of a group on the topics that the caller
// may read.
func (b *Backend) CommittedOffsets(ctx context.Context, caller grants.Caller, group string) (Offsets, error) {
	if err := checkGroup(group); err != nil {
		return nil, err
	}
	committed, err := b.fetchOffsets(ctx, caller, group, nil)
	if err != nil {
		return nil, err
	}
	p := b.watcher.Current()
	offsets := make(Offsets)
	for _, c := range committed {
		topic := committedTopic(p, c)
		if topic == nil || !caller.May(registryv1.Action_ACTION_READ, topic.Name) {
			continue
		}
		if offsets[topic.Name] == nil {
			offsets[topic.Name] = make(map[int32]int64)
		}
		offsets[topic.Name][c.GetPartition()] = c.GetOffset()
	}
	return offsets, nil
}

// committedTopic returns the topic of a committed offset, nil when it is gone.
func committedTopic(p *picture.Picture, c *coordinatorv1.CommittedOffset) *picture.Topic {
	if len(c.GetTopicId()) != len(picture.TopicID{}) {
		return nil
	}
	topic := p.TopicByID(picture.TopicID(c.GetTopicId()))
	if topic == nil || topic.Internal {
		return nil
	}
	return topic
}

// fetchOffsets returns a group's offsets on one topic, or on all when it is nil.
func (b *Backend) fetchOffsets(ctx context.Context, caller grants.Caller, group string, topic *picture.Topic) ([]*coordinatorv1.CommittedOffset, error) {
	req := &coordinatorv1.FetchOffsetsRequest{Caller: onBehalfOf(caller), Group: group}
	if topic != nil {
		req.TopicIds = [][]byte{topic.ID[:]}
	}
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	var resp *coordinatorv1.FetchOffsetsResponse
	err := b.offsets(ctx, func(c coordinatorv1.OffsetServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.FetchOffsets(ctx, req, opts...)
		return err
	})
	return resp.GetOffsets(), err
}

func (b *Backend) offsets(ctx context.Context, do func(c coordinatorv1.OffsetServiceClient, opts ...grpc.CallOption) error) error {
	return b.coordinators.call(ctx, func(conn grpc.ClientConnInterface, opts ...grpc.CallOption) error {
		return do(coordinatorv1.NewOffsetServiceClient(conn), opts...)
	})
}

// onBehalfOf says for whom a group is used: it belongs to the key that first did,
// and that is looked at where the group is.
func onBehalfOf(caller grants.Caller) *coordinatorv1.Caller {
	return &coordinatorv1.Caller{Owner: caller.ID(), Admin: caller.Admin() == nil}
}

func checkGroup(group string) error {
	switch {
	case group == "":
		return invalid("group must be given")
	case len(group) > maxGroup:
		return invalid("group must have at most %d bytes, got %d", maxGroup, len(group))
	case !utf8.ValidString(group) || strings.ContainsFunc(group, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return invalid("group must be text without control characters, got %q", group)
	}
	return nil
}
