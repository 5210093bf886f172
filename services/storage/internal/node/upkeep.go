package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// Pass is a kind of upkeep, which goes over all partitions of the node.
type Pass int

// The passes.
const (
	Retention Pass = iota
	Compaction
	// Tiering is the traffic with cold storage. Retention that somebody asks for
	// does it as well, so that what it lets go is gone when it returns.
	Tiering
	passes
)

func (p Pass) String() string { return [...]string{"retention", "compaction", "tiering"}[p] }

// Upkeep says how a node looks after its logs.
type Upkeep struct {
	// Intervals are the times between passes; a pass without one runs when it
	// is asked for alone.
	Intervals map[Pass]time.Duration
	// DeleteGrace is how long the files of a dropped segment stay.
	DeleteGrace time.Duration
	// CompactionBytes bounds the keys that compaction has in memory at once.
	CompactionBytes int64
	// MaxInflate bounds what the records of a batch may inflate to.
	MaxInflate int
}

// UpkeepCounts are what upkeep has done to a partition.
type UpkeepCounts struct {
	// Retention has dropped so many segments, and bytes of batches in them.
	SegmentsDeleted, BytesReclaimed int64
	// Compaction has rewritten segments so many times, and left out so many
	// records.
	Runs, RecordsDropped int64
	// So many segments that are in cold storage were dropped from the disk, and
	// bytes of batches in them.
	LocalSegmentsDropped, LocalBytesDropped int64
}

type counts struct {
	segmentsDeleted, bytesReclaimed, runs, recordsDropped atomic.Int64
	localSegmentsDropped, localBytesDropped               atomic.Int64
}

func (c *counts) now() UpkeepCounts {
	return UpkeepCounts{
		SegmentsDeleted: c.segmentsDeleted.Load(), BytesReclaimed: c.bytesReclaimed.Load(),
		Runs: c.runs.Load(), RecordsDropped: c.recordsDropped.Load(),
		LocalSegmentsDropped: c.localSegmentsDropped.Load(), LocalBytesDropped: c.localBytesDropped.Load(),
	}
}

// upkeep lets one pass of a kind run at a time, and ends them all when the node
// stops.
type upkeep struct {
	turns   [passes]chan struct{} // whoever runs a pass has put one in
	running context.Context
	end     context.CancelCauseFunc
}

func newUpkeep() *upkeep {
	u := &upkeep{}
	for i := range u.turns {
		u.turns[i] = make(chan struct{}, 1)
	}
	u.running, u.end = context.WithCancelCause(context.Background())
	return u
}

// stop ends the passes that run and returns when they have ended. None begins
// after it.
func (u *upkeep) stop() {
	u.end(ErrStopping)
	for _, turn := range u.turns {
		turn <- struct{}{}
	}
}

// PassFailure is a partition on which a pass failed.
type PassFailure struct {
	Key replica.Key
	Err error
}

// RunPass runs a pass over all partitions and returns when it is done. It first
// waits for one of the same kind that runs already, which may have passed by what
// the caller means. A partition that fails does not stop it. asked says that
// somebody asks for it, so that little to do is done too.
func (n *Node) RunPass(ctx context.Context, pass Pass, asked bool) ([]PassFailure, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.upkeep.running, func() { cancel(ErrStopping) })()
	turn := n.upkeep.turns[pass]
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%s pass: %w", pass, context.Cause(ctx))
	}
	var failures failures
	remote := n.cold != nil && (pass == Tiering || pass == Retention && asked)
	if remote {
		n.cold.failures.Store(0)
		if err := n.deleteRemoved(ctx); err != nil && ctx.Err() == nil {
			n.options.Logger.Warn("cold storage of removed topics is deleted later", "error", err)
		}
	}
	// What waits for the store does not wait for itself.
	var group errgroup.Group
	if remote {
		group.SetLimit(n.cold.Uploads)
	}
	for _, p := range n.Partitions() {
		if ctx.Err() != nil {
			break
		}
		if remote {
			group.Go(func() error {
				failures.add(n.keepUp(ctx, p, pass, asked))
				return nil
			})
			continue
		}
		failures.add(n.keepUp(ctx, p, pass, asked))
	}
	_ = group.Wait()
	if ctx.Err() != nil {
		return failures.all, fmt.Errorf("%s pass: %w", pass, context.Cause(ctx))
	}
	return failures.all, nil
}

// failures collects those of a pass.
type failures struct {
	mu  sync.Mutex
	all []PassFailure
}

func (f *failures) add(failure *PassFailure) {
	if failure == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, *failure)
}

// keepUp runs a pass on a partition and tells of its failure.
func (n *Node) keepUp(ctx context.Context, p *Partition, pass Pass, asked bool) *PassFailure {
	err := p.keepUp(ctx, pass, asked)
	// What was removed meanwhile, or is led elsewhere by now, is no failure.
	var elsewhere *NotLeaderError
	if err == nil || errors.Is(err, ErrUnknownPartition) || errors.As(err, &elsewhere) || ctx.Err() != nil {
		return nil
	}
	level := slog.LevelWarn
	if !asked && p.failure.Load() != nil || errors.Is(err, errAway) {
		level = slog.LevelDebug // it was logged when it happened
	}
	n.options.Logger.Log(ctx, level, "upkeep of a partition failed", "pass", pass.String(),
		"topic", p.topic.name, "partition", p.key.Partition, "error", err)
	return &PassFailure{Key: p.key, Err: err}
}

// keepUp runs a pass on one partition. One that was never written costs nothing. A
// panic beside the owner is a failure of this pass: what it was about is done by
// commands and swaps, of which none is half done, so the next one may try again.
func (p *Partition) keepUp(ctx context.Context, pass Pass, asked bool) (err error) {
	if !p.written.Load() {
		return nil
	}
	defer func() {
		if value := recover(); value != nil {
			err = p.wrap(pass.String()+" of", p.panicked(value))
		}
	}()
	switch pass {
	case Compaction:
		return p.wrap("compaction of", p.compact(ctx, asked))
	case Tiering:
		return p.wrap("cold storage of", p.tierUp(ctx))
	}
	err = p.wrap("retention of", p.retain(ctx))
	if asked {
		err = errors.Join(err, p.wrap("cold storage of", p.tierUp(ctx)))
	}
	return err
}

// runPasses runs a pass again and again until the context ends. Nodes that were
// started together do not stay in step.
func (n *Node) runPasses(ctx context.Context, pass Pass, interval time.Duration) {
	for interval > 0 {
		timer := time.NewTimer(interval/2 + rand.N(interval))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		// Failures are logged by the pass; a stop ends the loop too. What panics beside
		// the partitions is tried again with the next.
		_ = confine.Attempt(ctx, n.options.Logger, func() error {
			_, err := n.RunPass(ctx, pass, false)
			return err
		})
	}
}
