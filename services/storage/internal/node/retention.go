package node

import (
	"context"

	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
	"github.com/sluiceio/sluice/services/storage/internal/retain"
)

// retain applies the topic's retention. The leader moves the start offset, which
// every replica applies; each drops what then lies below it. A log with nothing
// to drop is looked at in memory and not woken up.
func (p *Partition) retain(ctx context.Context) error {
	view, log, err := p.view(ctx)
	if err != nil || log == nil {
		return err
	}
	local, _ := sealedOf(log)
	if len(local) == 0 && len(view.State.Cold.Segments()) == 0 {
		return nil
	}
	start := view.State.StartOffset
	if config := p.Config(); config.Deletes && view.Readable() {
		segments, err := allSegments(view, log)
		if err != nil {
			return p.readFailed(err)
		}
		to := retain.Start(segments, config.Retention, start, view.HighWatermark, p.node.options.Now().UnixMilli())
		if to > start {
			if start, err = p.raise(ctx, to); err != nil {
				return err
			}
			for _, s := range onlyCold(view, log) {
				if s.Next <= to {
					p.counts.segmentsDeleted.Add(1)
					p.counts.bytesReclaimed.Add(s.Size)
				}
			}
		}
	}
	if len(local) == 0 || local[0].Next > start {
		return nil
	}
	dropped, bytes, err := p.trim()
	p.counts.segmentsDeleted.Add(int64(dropped))
	p.counts.bytesReclaimed.Add(bytes)
	return err
}

// allSegments are those in cold storage, and of the log what is not: each offset
// counts once, wherever it is, and however much of it is in both.
func allSegments(view *replica.View, log *raftlog.Log) ([]retain.Segment, error) {
	cold := view.State.Cold.Segments()
	end := view.State.Cold.End(0)
	all := make([]retain.Segment, 0, len(cold)+1)
	for _, s := range cold {
		all = append(all, retain.Segment{
			Base: s.Base, Next: s.Next, Size: s.Size, MaxTimestamp: s.MaxTimestamp,
			LastAppendMs: s.LastAppendMs, Sealed: true,
		})
	}
	for _, s := range segmentsOf(log.Stats().Segments) {
		if len(cold) > 0 && s.Next <= end && s.Sealed {
			continue
		}
		if len(cold) > 0 && s.Base < end {
			// A leader before has sealed its segments at other offsets.
			size, err := log.BytesFrom(s.Base, end)
			if err != nil {
				return nil, err
			}
			s.Base, s.Size = end, size
		}
		all = append(all, s)
	}
	return all, nil
}

// sealedOf returns the segments of a log that has sealed ones, the active one
// last, and what the log told of them.
func sealedOf(log *raftlog.Log) ([]retain.Segment, []raftlog.SegmentStat) {
	if n, _ := log.Size(); n < 2 {
		return nil, nil
	}
	stats := log.Stats().Segments
	return segmentsOf(stats), stats
}

func segmentsOf(stats []raftlog.SegmentStat) []retain.Segment {
	segments := make([]retain.Segment, len(stats))
	for i, s := range stats {
		segments[i] = retain.Segment{
			Base: s.Base, Next: s.Next, Size: s.Size,
			MaxTimestamp: s.MaxTimestamp, FirstAppendMs: s.FirstAppendMs, LastAppendMs: s.LastAppendMs, Sealed: s.Sealed,
			CleanTo: s.CleanTo, HorizonMs: s.HorizonMs,
		}
	}
	return segments
}
