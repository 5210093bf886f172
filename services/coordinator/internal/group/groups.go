package group

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/sluiceio/sluice/services/coordinator/internal/meta"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
)

// maxTopics limits what a member subscribes to.
const maxTopics = 100

// Catalog is the topics that there are.
type Catalog interface {
	Topics
	// Sync waits until Partitions knows every topic that was made before the call,
	// and none that had been deleted before it.
	Sync(ctx context.Context) error
	// TopicChanges counts the changes of topics.
	TopicChanges() uint64
	// Changed is closed with the next change of the topics or of anything else.
	Changed() <-chan struct{}
}

// Groups lets members join, stay and leave.
type Groups struct {
	shards *shard.Part[*State]
	topics Catalog
}

// New returns the groups in some shards.
func New(shards *shard.Part[*State], topics Catalog) *Groups {
	return &Groups{shards: shards, topics: topics}
}

// Join makes a member, of a new id if none is given, or has one subscribe anew.
// It returns when that is on disk.
func (g *Groups) Join(ctx context.Context, caller Caller, group, id string, topics [][]byte) (string, Membership, error) {
	number, err := g.shardOf(group)
	if err != nil {
		return "", Membership{}, err
	}
	if id == "" {
		id = newMemberID()
	} else if err := checkMemberID(id); err != nil {
		return "", Membership{}, err
	}
	subscription, err := g.subscription(ctx, topics)
	if err != nil {
		return "", Membership{}, err
	}
	var got Membership
	err = g.shards.Write(ctx, number, func(s *State) (records []shard.Record, err error) {
		records, got, err = s.Join(time.Now(), caller, group, id, subscription)
		return records, err
	})
	return id, got, err
}

// newMemberID returns an id that nobody guesses.
func newMemberID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return "m_" + hex.EncodeToString(b[:])
}

// subscription reads the ids of topics that exist.
func (g *Groups) subscription(ctx context.Context, topics [][]byte) ([]rows.TopicID, error) {
	if len(topics) == 0 || len(topics) > maxTopics {
		return nil, ErrInvalidTopics.WithMessage("a member subscribes to 1 to %d topics, not %d", maxTopics, len(topics))
	}
	ids := make([]rows.TopicID, len(topics))
	synced := false
	for i, b := range topics {
		var ok bool
		if ids[i], ok = rows.ParseTopicID(b); !ok {
			return nil, ErrInvalidTopics.WithMessage("a topic id has 16 bytes, not %d", len(b))
		}
		if _, ok = g.topics.Partitions(ids[i]); ok {
			continue
		}
		if !synced {
			// Perhaps it was made this very moment.
			if err := g.topics.Sync(ctx); err != nil {
				return nil, err
			}
			synced = true
		}
		if _, ok = g.topics.Partitions(ids[i]); !ok {
			return nil, meta.ErrTopicNotFound.WithMessage("the topic with the id %s does not exist", ids[i])
		}
	}
	return ids, nil
}

// Heartbeat keeps a member in its group. It returns the group's generation and
// whether it has the member.
func (g *Groups) Heartbeat(ctx context.Context, caller Caller, group, id string) (generation int64, known bool, err error) {
	number, err := g.shardOf(group)
	if err != nil {
		return 0, false, err
	}
	err = g.shards.Read(ctx, number, func(s *State) (err error) {
		generation, known, err = s.Heartbeat(time.Now(), caller, group, id)
		return err
	})
	return generation, known, err
}

// Leave takes a member out and returns when that is on disk.
func (g *Groups) Leave(ctx context.Context, caller Caller, group, id string) error {
	number, err := g.shardOf(group)
	if err != nil {
		return err
	}
	return g.shards.Write(ctx, number, func(s *State) ([]shard.Record, error) { return s.Leave(caller, group, id) })
}

// Membership returns what a member has.
func (g *Groups) Membership(ctx context.Context, caller Caller, group, id string) (got Membership, err error) {
	number, err := g.shardOf(group)
	if err != nil {
		return Membership{}, err
	}
	err = g.shards.Read(ctx, number, func(s *State) (err error) {
		got, err = s.Membership(caller, group, id)
		return err
	})
	return got, err
}

func (g *Groups) shardOf(group string) (int32, error) {
	if err := CheckName(group); err != nil {
		return 0, err
	}
	number, ok := g.shards.Of(group)
	if !ok {
		return 0, shard.ErrNotCoordinator
	}
	return number, nil
}
