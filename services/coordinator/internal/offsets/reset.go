package offsets

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// Reset is what a reset of offsets has done.
type Reset struct {
	Groups, Entries int64
	// Shards are those that were seen to.
	Shards []int32
}

// Reset moves all offsets on a topic to those given by partition, of the groups
// of the shards that this coordinator owns, but for those given. A group is moved
// whole or not at all. After an error some groups may be moved; to do it again
// does no harm.
func (o *Offsets) Reset(ctx context.Context, topic []byte, to []int64, except []int32) (Reset, error) {
	id, ok := rows.ParseTopicID(topic)
	if !ok {
		return Reset{}, errs.New(errs.InvalidArgument, "INVALID_TOPIC_ID", "a topic id has 16 bytes, not %d", len(topic))
	}
	if slices.ContainsFunc(to, func(offset int64) bool { return offset < 0 }) {
		return Reset{}, errs.New(errs.InvalidArgument, "INVALID_OFFSET", "an offset is below 0")
	}
	var done Reset
	for _, number := range o.shards.Owned() {
		if slices.Contains(except, number) {
			continue
		}
		groups, entries, err := o.resetShard(ctx, number, id, to)
		switch {
		case errors.Is(err, shard.ErrNotCoordinator):
			continue // another's by now, which will be asked
		case err != nil:
			return Reset{}, err
		}
		done.Groups += groups
		done.Entries += entries
		done.Shards = append(done.Shards, number)
	}
	return done, nil
}

func (o *Offsets) resetShard(ctx context.Context, number int32, topic rows.TopicID, to []int64) (groups, entries int64, err error) {
	var names []string
	if err := o.shards.Read(ctx, number, func(h Held) error {
		names = h.Offsets.on(topic)
		return nil
	}); err != nil {
		return 0, 0, err
	}
	for _, name := range names {
		var moved int64
		if err := o.shards.Write(ctx, number, func(h Held) (records []shard.Record, _ error) {
			records, moved = h.Offsets.moved(name, topic, to, time.Now().UnixMilli())
			return records, nil
		}); err != nil {
			return 0, 0, err
		}
		if moved > 0 {
			groups++
			entries += moved
		}
	}
	return groups, entries, nil
}

// ShardCount returns how many shards there are, 0 before it is known.
func (o *Offsets) ShardCount() int { return o.shards.Count() }
