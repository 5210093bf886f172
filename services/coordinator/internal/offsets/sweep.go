package offsets

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/confine"
)

const (
	// sweepAtOnce limits the offsets that one write removes.
	sweepAtOnce = 1000
	// sweepPause is how long changes are gathered before they are looked at: a
	// burst of them costs one sweep.
	sweepPause = time.Second
)

// Sweeper removes the offsets of topics that are gone, from the shards that
// somebody uses; those that nobody does are swept when they are loaded.
type Sweeper struct {
	offsets *Offsets
	log     *slog.Logger
	pause   time.Duration
}

// NewSweeper returns a sweeper; Run starts it.
func NewSweeper(o *Offsets, log *slog.Logger) *Sweeper {
	return &Sweeper{offsets: o, log: log, pause: sweepPause}
}

// Run sweeps after changes until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	wait := backoff.New(backoff.Policy{Initial: s.pause, Max: 30 * time.Second})
	var sweptRemovals, sweptLoads uint64
	for ctx.Err() == nil {
		changed, loaded := s.offsets.topics.Changed(), s.offsets.shards.LoadsChanged()
		removals, loads := s.offsets.topics.Removals(), s.offsets.shards.Loads()
		if removals != sweptRemovals || loads != sweptLoads {
			if err := confine.Attempt(ctx, s.log, func() error { return s.sweep(ctx) }); err != nil {
				if ctx.Err() == nil {
					s.log.Warn("offsets of deleted topics not removed, trying again", "err", err)
				}
				_ = wait.Wait(ctx)
				continue
			}
			wait.Reset()
			sweptRemovals, sweptLoads = removals, loads
			s.rest(ctx)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-loaded:
		}
	}
	return nil
}

func (s *Sweeper) rest(ctx context.Context) {
	timer := time.NewTimer(s.pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// sweep looks through the loaded shards once.
func (s *Sweeper) sweep(ctx context.Context) error {
	for _, number := range s.offsets.shards.Loaded() {
		err := s.sweepShard(ctx, number)
		if err != nil && !errors.Is(err, shard.ErrNotCoordinator) {
			return err
		}
	}
	return nil
}

func (s *Sweeper) sweepShard(ctx context.Context, number int32) error {
	var topics map[rows.TopicID]bool
	if err := s.offsets.shards.Read(ctx, number, func(h Held) error {
		topics = h.Offsets.topics()
		return nil
	}); err != nil {
		return err
	}
	gone := s.unknown(topics)
	if len(gone) == 0 {
		return nil
	}
	// The picture may be behind, and an offset may have been committed on a
	// topic that it does not have yet. After a Sync it has every topic that the
	// offsets above can be of; an id that is missing then never comes back.
	if err := s.offsets.topics.Sync(ctx); err != nil {
		return err
	}
	if gone = s.unknown(gone); len(gone) == 0 {
		return nil
	}
	for {
		n := 0
		err := s.offsets.shards.Write(ctx, number, func(h Held) ([]shard.Record, error) {
			records := h.Offsets.without(gone, sweepAtOnce)
			n = len(records)
			return records, nil
		})
		if err != nil || n < sweepAtOnce {
			return err
		}
	}
}

// unknown returns the topics that the picture does not have.
func (s *Sweeper) unknown(topics map[rows.TopicID]bool) map[rows.TopicID]bool {
	gone := make(map[rows.TopicID]bool)
	for id := range topics {
		if s.offsets.topics.TopicByID(id) == nil {
			gone[id] = true
		}
	}
	return gone
}
