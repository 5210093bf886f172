package node

import (
	"context"

	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
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
	segments, _ := sealedOf(log)
	if len(segments) == 0 {
		return nil
	}
	start := view.State.StartOffset
	if config := p.Config(); config.Deletes && view.Readable() {
		to := retain.Start(segments, config.Retention, start, view.HighWatermark, p.node.options.Now().UnixMilli())
		if to > start {
			if start, err = p.raise(ctx, to); err != nil {
				return err
			}
		}
	}
	if segments[0].Next > start {
		return nil
	}
	dropped, bytes, err := p.trim()
	p.counts.segmentsDeleted.Add(int64(dropped))
	p.counts.bytesReclaimed.Add(bytes)
	return err
}

// sealedOf returns the segments of a log that has sealed ones, the active one
// last, and what the log told of them.
func sealedOf(log *raftlog.Log) ([]retain.Segment, []raftlog.SegmentStat) {
	if n, _ := log.Size(); n < 2 {
		return nil, nil
	}
	stats := log.Stats().Segments
	segments := make([]retain.Segment, len(stats))
	for i, s := range stats {
		segments[i] = retain.Segment{
			Base: s.Base, Next: s.Next, Size: s.Size,
			MaxTimestamp: s.MaxTimestamp, FirstAppendMs: s.FirstAppendMs, LastAppendMs: s.LastAppendMs, Sealed: s.Sealed,
			CleanTo: s.CleanTo, HorizonMs: s.HorizonMs,
		}
	}
	return segments, stats
}
