package node

import (
	"context"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
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
			result, err := p.order(&persistv1.Command{Kind: &persistv1.Command_AdvanceStart{
				AdvanceStart: &persistv1.AdvanceStart{Offset: to},
			}}).Wait(ctx)
			if err != nil {
				return err
			}
			start = result.StartOffset
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

// order is command past the queue of appends, by itself: what makes room is proposed
// while appends are refused because there is none, and shares its write with none of
// them. The replica is there.
func (p *Partition) order(command *persistv1.Command) *Appending {
	a := &Appending{
		p: p, done: p.node.signals.Get().(chan struct{}),
		proposal: replica.Proposal{Command: command, OwnerEpoch: replica.NoOwner},
	}
	a.proposal.Done = a.answer
	proposed := false
	p.do(task{lost: func(err error) {
		if !proposed {
			a.answer(replica.Result{Err: err})
		}
	}, run: func(r *replica.Replica, err error) {
		switch {
		case r != nil && (err == nil || outOfSpace(err)):
			err = p.ownerElect(r)
		case err == nil:
			err = ErrStopping
		}
		if err != nil {
			a.answer(replica.Result{Err: err})
			return
		}
		p.node.awake.touch(p)
		proposed = true // the replica answers it, whatever happens
		if r.Propose([]*replica.Proposal{&a.proposal}) == nil {
			// The replica keeps its failure.
			_ = r.Run()
		}
	}}, false)
	return a
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
