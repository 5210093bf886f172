package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluiceio/sluice/services/storage/internal/cold"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
	"github.com/sluiceio/sluice/services/storage/internal/tier"
)

// localStart is the first offset that readers see and the log has. The log is nil
// for an unwritten partition.
func localStart(view *replica.View, log *raftlog.Log) int64 {
	if log == nil {
		return view.State.StartOffset
	}
	return max(view.State.StartOffset, log.StartOffset())
}

// readCold reads what the log has dropped; now, with what is in memory alone.
func (p *Partition) readCold(ctx context.Context, offset, bound int64, maxBytes int, now bool) (cold.Chunk, error) {
	at, err := p.inCold(ctx, offset)
	if err != nil {
		return cold.Chunk{}, err
	}
	read := p.node.cold.reader.Read
	if now {
		read = p.node.cold.reader.ReadNow
	}
	chunk, err := read(ctx, at, offset, bound, maxBytes)
	return chunk, p.coldFailed(ctx, at, offset, err)
}

// inCold finds the segment in cold storage that has an offset, by what is known
// now: what the log has dropped since the caller looked is there.
func (p *Partition) inCold(ctx context.Context, offset int64) (cold.Located, error) {
	view, _, err := p.view(ctx)
	if err != nil {
		return cold.Located{}, err
	}
	s, ok := view.State.Cold.Find(offset)
	switch {
	case !ok || offset < view.State.StartOffset:
		return cold.Located{}, fmt.Errorf("%w: %d was dropped", ErrOffsetOutOfRange, offset)
	case p.node.cold == nil:
		return cold.Located{}, ErrNoColdStorage
	}
	return p.located(view.State.Cold, s), nil
}

// coldFailed gives a read that failed its kind. That an object is gone is as it
// should be once the start offset has passed it.
func (p *Partition) coldFailed(ctx context.Context, at cold.Located, offset int64, err error) error {
	if err == nil {
		return nil
	}
	if view, _, viewErr := p.view(ctx); viewErr == nil && errors.Is(err, cold.ErrLost) && offset < view.State.StartOffset {
		return fmt.Errorf("%w: %d was dropped", ErrOffsetOutOfRange, offset)
	}
	if errors.Is(err, cold.ErrDamaged) && p.node.cold.firstDamage(at.Name) {
		p.node.options.Logger.Error("an object in cold storage is damaged",
			"topic", p.topic.name, "partition", p.key.Partition, "error", err)
	}
	return err
}

// onlyCold are the segments in cold storage that the log has dropped, in whole or
// in part, and that readers see.
func onlyCold(view *replica.View, log *raftlog.Log) []tier.Segment {
	segments := view.State.Cold.Segments()
	n := 0
	for n < len(segments) && segments[n].Base < log.StartOffset() {
		n++
	}
	return segments[:n]
}

// findTimestamp finds the first record with at least a timestamp.
func (p *Partition) findTimestamp(ctx context.Context, view *replica.View, log *raftlog.Log, ts int64) (offset, timestamp int64, ok bool, err error) {
	for _, s := range onlyCold(view, log) {
		if s.MaxTimestamp < ts {
			continue
		}
		if p.node.cold == nil {
			return 0, 0, false, ErrNoColdStorage
		}
		at := p.located(view.State.Cold, s)
		offset, timestamp, ok, err = p.node.cold.reader.Find(ctx, at, ts, view.HighWatermark)
		if ok || err != nil {
			return offset, timestamp, ok, p.coldFailed(ctx, at, s.Next-1, err)
		}
	}
	offset, timestamp, ok, err = log.FindTimestamp(ts, view.HighWatermark)
	if err != nil {
		err = p.readFailed(err)
	}
	return offset, timestamp, ok, err
}

// largestTimestamp finds the first record with the largest timestamp.
func (p *Partition) largestTimestamp(ctx context.Context, view *replica.View, log *raftlog.Log) (offset, timestamp int64, ok bool, err error) {
	offset, timestamp, ok, err = log.MaxTimestamp(view.HighWatermark)
	if err != nil {
		return 0, 0, false, p.readFailed(err)
	}
	best, found := timestamp, tier.Segment{}
	if !ok {
		best = -1
	}
	// From the last to the first: of equal ones the first counts.
	segments := onlyCold(view, log)
	for i := len(segments) - 1; i >= 0; i-- {
		if s := segments[i]; s.MaxTimestamp >= 0 && s.MaxTimestamp >= best {
			best, found = s.MaxTimestamp, s
		}
	}
	if found.Next == 0 {
		return offset, timestamp, ok, nil
	}
	if p.node.cold == nil {
		return 0, 0, false, ErrNoColdStorage
	}
	at := p.located(view.State.Cold, found)
	offset, timestamp, ok, err = p.node.cold.reader.Largest(ctx, at)
	return offset, timestamp, ok, p.coldFailed(ctx, at, found.Next-1, err)
}

// epochAt is the leader epoch of the batch that holds an offset.
func epochAt(view *replica.View, log *raftlog.Log, offset int64) int32 {
	if s, ok := view.State.Cold.Find(offset); ok && offset < log.StartOffset() {
		return s.EpochAt(offset)
	}
	return log.EpochAt(offset)
}

// epochEnd is raftlog.Log.EpochEnd that knows the epochs of what is in cold
// storage, too.
func epochEnd(view *replica.View, log *raftlog.Log, asked int32, end int64) (epoch int32, at int64) {
	first, start := log.FirstEpoch()
	if asked < 0 || asked >= first {
		return log.EpochEnd(asked, end)
	}
	epochs := view.State.Cold.Epochs()
	if len(epochs) == 0 {
		return log.EpochEnd(asked, end)
	}
	if uint64(asked) < epochs[0].Term {
		return asked, epochs[0].Start
	}
	for i, e := range epochs {
		if e.Term > uint64(asked) {
			return int32(epochs[i-1].Term), e.Start
		}
	}
	// Where the first that the log has begins, even if that was dropped.
	return int32(epochs[len(epochs)-1].Term), start
}

// ColdListing is what a partition has in cold storage.
type ColdListing struct {
	View       *replica.View
	LocalStart int64
	// Name names an object.
	Name func(tier.Object) string
	// Uploading tells whether the object is uploaded just now.
	Uploading func(tier.Object) bool
}

// ListCold returns what the partition has in cold storage. Only a leader knows it.
func (p *Partition) ListCold(ctx context.Context) (ColdListing, error) {
	view, log, err := p.readable(ctx, NoEpoch)
	if err != nil {
		return ColdListing{}, p.wrap("list cold storage of", err)
	}
	return ColdListing{
		View: view, LocalStart: localStart(view, log),
		Name:      func(o tier.Object) string { return o.Name(p.coldPrefix(view.State.Cold)) },
		Uploading: p.tiering.isUploading,
	}, nil
}
