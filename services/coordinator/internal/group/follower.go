package group

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/confine"
)

// followPause is how long changes of topics are gathered before they are looked
// at.
const followPause = 200 * time.Millisecond

// Follower has groups rebalance when their topics grow or go, in the shards that
// somebody uses; others are looked at when they are loaded.
type Follower struct {
	groups *Groups
	log    *slog.Logger
}

// NewFollower returns a follower; Run starts it.
func NewFollower(g *Groups, log *slog.Logger) *Follower {
	return &Follower{groups: g, log: log}
}

// Run follows until ctx ends.
func (f *Follower) Run(ctx context.Context) error {
	wait := backoff.New(backoff.Policy{Initial: followPause, Max: 30 * time.Second})
	topics, shards := f.groups.topics, f.groups.shards
	var seenChanges, seenLoads uint64
	for ctx.Err() == nil {
		changed, loaded := topics.Changed(), shards.LoadsChanged()
		changes, loads := topics.TopicChanges(), shards.Loads()
		if changes != seenChanges || loads != seenLoads {
			if err := confine.Attempt(ctx, f.log, func() error { return f.follow(ctx) }); err != nil {
				if ctx.Err() == nil {
					f.log.Warn("groups not rebalanced after a change of topics, trying again", "err", err)
				}
				_ = wait.Wait(ctx)
				continue
			}
			wait.Reset()
			seenChanges, seenLoads = changes, loads
			rest(ctx)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-loaded:
		}
	}
	return nil
}

func rest(ctx context.Context) {
	timer := time.NewTimer(followPause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// follow looks through the loaded shards once. A shard that fails does not keep
// the others from it.
func (f *Follower) follow(ctx context.Context) error {
	var failures []error
	for _, number := range f.groups.shards.Loaded() {
		err := f.followShard(ctx, number)
		if err != nil && !errors.Is(err, shard.ErrNotCoordinator) {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

func (f *Follower) followShard(ctx context.Context, number int32) error {
	var stale []string
	if err := f.groups.shards.Read(ctx, number, func(s *State) error {
		stale = s.Stale()
		return nil
	}); err != nil || len(stale) == 0 {
		return err
	}
	// The picture may be behind what members subscribed to. After a Sync a topic
	// that it does not have is gone for good.
	if err := f.groups.topics.Sync(ctx); err != nil {
		return err
	}
	var failures []error
	for _, name := range stale {
		failures = append(failures, f.groups.shards.Write(ctx, number, func(s *State) ([]shard.Record, error) {
			return s.Refresh(name), nil
		}))
	}
	return errors.Join(failures...)
}
