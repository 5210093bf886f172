package node

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/clean"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
	"github.com/sluiceio/sluice/services/storage/internal/retain"
)

const (
	// producerLife is how long the last batch of a producer stays without
	// records: by then nobody goes on with its sequence any more.
	producerLife = 7 * 24 * time.Hour
	// mostTries bounds how often a pass begins again because others drop segments
	// that it works on.
	mostTries = 5
	// mostProducers bounds the producers whose last batch is known.
	mostProducers = 1 << 16
)

// compact cleans the sealed segments of a compacted topic, round by round, until
// nothing is due. Every replica cleans its own files. A log with nothing due is
// looked at in memory and not woken up.
func (p *Partition) compact(ctx context.Context, asked bool) error {
	for tries := 0; ; {
		config := p.Config()
		if !config.Compacted {
			return nil
		}
		view, log, err := p.view(ctx)
		if err != nil || log == nil {
			return err
		}
		segments, stats := sealedOf(log)
		if len(segments) == 0 {
			return nil
		}
		now := p.node.options.Now().UnixMilli()
		work, due := config.Compaction.Due(segments, view.HighWatermark, now, asked)
		if !due {
			return nil
		}
		c := &compacting{p: p, ctx: ctx, log: log, config: config, work: work, segments: stats[work.First:work.Last], nowMs: now}
		err = c.run()
		if errors.Is(err, raftlog.ErrReplaced) && tries < mostTries {
			tries++ // others were at work on the same segments
			continue
		}
		if err != nil {
			return err
		}
	}
}

// awaitCleaning returns when nobody writes to the folder of an ended partition
// any more.
func (p *Partition) awaitCleaning() {
	p.cleaning.Lock()
	defer p.cleaning.Unlock()
}

// compacting is one round over a partition.
type compacting struct {
	p        *Partition
	ctx      context.Context
	log      *raftlog.Log
	config   *Config
	work     retain.Work
	segments []raftlog.SegmentStat // those of the work
	nowMs    int64

	cleaner   *clean.Cleaner
	producers *clean.Producers
}

func (c *compacting) run() error {
	c.p.cleaning.Lock()
	defer c.p.cleaning.Unlock()
	if err := c.learn(); err != nil {
		return c.failed(err)
	}
	var groups [][]raftlog.SegmentStat
	for _, s := range c.segments {
		if s.Base >= c.cleaner.Learned() {
			break // there was no room for its keys
		}
		if n := len(groups); n > 0 && c.fits(groups[n-1], s) {
			groups[n-1] = append(groups[n-1], s)
		} else {
			groups = append(groups, []raftlog.SegmentStat{s})
		}
	}
	for _, group := range groups {
		if err := c.rewrite(group); err != nil {
			return c.failed(err)
		}
	}
	c.p.counts.runs.Add(1)
	return nil
}

// failed gives an error its kind. One of reading takes the replica out of service
// if it is damage.
func (c *compacting) failed(err error) error {
	switch {
	case errors.Is(err, raftlog.ErrClosed):
		return ErrStopping
	case c.ctx.Err() != nil, errors.Is(err, raftlog.ErrReplaced), errors.Is(err, ErrStopping), errors.Is(err, ErrUnknownPartition):
		return err
	case errors.Is(err, raftlog.ErrDamaged):
		return c.p.readFailed(err)
	}
	return diskFailure(err)
}

// fits says whether a segment may become part of the one that others become.
func (c *compacting) fits(group []raftlog.SegmentStat, s raftlog.SegmentStat) bool {
	size := s.Size
	for _, other := range group {
		size += other.Size
	}
	return size <= c.config.SegmentBytes && s.Next-group[0].Base <= math.MaxInt32
}

// alive ends what takes long once nobody wants it.
func (c *compacting) alive() error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	c.p.queue.Lock()
	defer c.p.queue.Unlock()
	return c.p.queue.gone
}

var errFull = errors.New("no room for more keys")

// learn takes the keys of what is new, and the last batch of each producer.
func (c *compacting) learn() error {
	keys := clean.NewKeys(c.work.To-c.work.From, c.p.node.options.Upkeep.CompactionBytes)
	c.cleaner = clean.New(clean.Rules{
		From: c.work.From, NowMs: c.nowMs, TombstoneMs: c.config.Compaction.TombstoneMs,
		MaxInflate: c.p.node.options.Upkeep.MaxInflate,
	}, keys)
	c.producers = clean.NewProducers(mostProducers)
	for _, s := range c.segments {
		err := c.log.ScanHeaders(s.Base, s.Generation, func(h recordbatch.Header) error {
			c.producers.Note(h)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, s := range c.segments {
		if s.Next <= c.work.From {
			continue
		}
		err := c.log.Scan(s.Base, s.Generation, func(batch []byte) error {
			all, err := c.cleaner.Learn(batch)
			switch {
			case err != nil:
				return err
			case !all:
				return errFull
			}
			return c.alive()
		})
		switch {
		case errors.Is(err, errFull):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// rewrite makes one segment of a few, and swaps it in.
func (c *compacting) rewrite(group []raftlog.SegmentStat) error {
	if err := c.alive(); err != nil {
		return err
	}
	w, err := c.log.Rewrite(group)
	if err != nil {
		return err
	}
	dropped, err := c.fill(w, group)
	if err == nil {
		err = c.p.await(false, func(r *replica.Replica) error {
			c.p.node.awake.touch(c.p)
			return r.Swap(w)
		})
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	c.p.counts.recordsDropped.Add(int64(dropped))
	return nil
}

// fill writes what stays of a group.
func (c *compacting) fill(w *raftlog.Rewriting, group []raftlog.SegmentStat) (dropped int, err error) {
	horizon := int64(0)
	var last recordbatch.Header
	for _, s := range group {
		expired := c.nowMs-s.LastAppendMs > producerLife.Milliseconds()
		err := c.log.Scan(s.Base, s.Generation, func(batch []byte) error {
			var err error
			if last, err = recordbatch.ParseHeader(batch); err != nil {
				return err
			}
			cleaned, err := c.cleaner.Clean(batch, !expired && c.producers.Last(last))
			if err != nil {
				return err
			}
			dropped += cleaned.Dropped
			horizon = max(horizon, cleaned.HorizonMs)
			if len(cleaned.Batch) != len(batch) || len(batch) > 0 && &cleaned.Batch[0] != &batch[0] {
				w.Change()
			}
			if cleaned.Batch != nil {
				if err := w.Append(cleaned.Batch); err != nil {
					return err
				}
			}
			return c.alive()
		})
		if err != nil {
			return dropped, err
		}
	}
	if w.Empty() {
		// A segment is never without a batch: its end would be known to nobody.
		if err := w.Append(clean.Empty(last)); err != nil {
			return dropped, err
		}
	}
	return dropped, w.Finish(c.cleaner.Learned(), horizon)
}
