package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"

	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/storage/internal/cold"
	"github.com/sluiceio/sluice/services/storage/internal/tier"
)

// Cold is a node's cold storage. Without a store there is none.
type Cold struct {
	Store blob.Store
	// Uploads bounds the segments that are uploaded at once.
	Uploads int
	// Reads bounds the requests of readers at once, ReadTimeout each of them.
	Reads       int
	ReadTimeout time.Duration
	// CacheBytes bounds the blocks of objects that are kept in memory, BlockBytes
	// is the size of one, and ReadAhead how many are fetched ahead.
	CacheBytes, BlockBytes int64
	ReadAhead              int
	// SweepInterval is the time between listings of a partition's objects.
	SweepInterval time.Duration
}

// ErrNoColdStorage is the answer of a node without cold storage to who reads what
// is in it.
var ErrNoColdStorage = fmt.Errorf("%w: this node was started without any", cold.ErrUnavailable)

// coldStorage is cold storage as the partitions of a node share it.
type coldStorage struct {
	Cold
	reader  *cold.Reader
	uploads *semaphore.Weighted
	// failures counts the requests of a pass that have failed since one was done.
	failures atomic.Int64
	// damaged has the objects that were logged as damaged.
	damaged struct {
		sync.Mutex
		names map[string]bool
	}
}

// mostDamaged bounds the objects that are known to be logged.
const mostDamaged = 1024

// firstDamage tells whether an object is met as damaged for the first time: whoever
// reads it tries again and again.
func (c *coldStorage) firstDamage(name string) bool {
	c.damaged.Lock()
	defer c.damaged.Unlock()
	if c.damaged.names[name] {
		return false
	}
	if c.damaged.names == nil || len(c.damaged.names) >= mostDamaged {
		c.damaged.names = map[string]bool{}
	}
	c.damaged.names[name] = true
	return true
}

// mostFailures is after how many a pass asks the store for nothing more: each has
// taken all its retries, and there may be thousands of partitions.
const mostFailures = 4

// errAway is why a pass has not asked the store.
var errAway = fmt.Errorf("%w: the pass has given up on it", cold.ErrUnavailable)

// done notes how a request went, and gives a failure its kind.
func (c *coldStorage) done(doing, name string, err error) error {
	if err == nil {
		c.failures.Store(0)
		return nil
	}
	c.failures.Add(1)
	return fmt.Errorf("%w: %s %s: %w", cold.ErrUnavailable, doing, name, err)
}

func (c *coldStorage) isAway() bool { return c.failures.Load() >= mostFailures }

// newColdStorage is nil where there is none.
func newColdStorage(c Cold) *coldStorage {
	if c.Store == nil {
		return nil
	}
	return &coldStorage{
		Cold: c,
		reader: cold.NewReader(cold.Options{
			Store: c.Store, CacheBytes: c.CacheBytes, BlockBytes: c.BlockBytes, Ahead: c.ReadAhead,
			Fetches: c.Reads, Timeout: c.ReadTimeout,
		}),
		uploads: semaphore.NewWeighted(int64(c.Uploads)),
	}
}

func (c *coldStorage) close() {
	if c != nil {
		c.reader.Close()
	}
}

// coldPrefix is what the names of a partition's objects begin with.
func (p *Partition) coldPrefix(state *tier.State) string {
	return tier.Prefix(p.key.Topic, p.key.Partition, state.Lineage())
}

func (p *Partition) located(state *tier.State, s tier.Segment) cold.Located {
	return cold.Located{Name: s.Object.Name(p.coldPrefix(state)), Segment: s}
}

// mayBeCold are those of the topics that may have objects in cold storage: any, where
// there is one; where there is none, those that had some.
func (n *Node) mayBeCold(ids []uuid.UUID) []uuid.UUID {
	if n.cold != nil {
		return ids
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	had := map[uuid.UUID]bool{}
	for key, p := range n.mu.partitions {
		r := p.open.Load()
		had[key.Topic] = had[key.Topic] || p.written.Load() && (r == nil || r.View().State.Cold != nil)
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return !had[id] })
}

// deleteRemoved deletes the objects of removed topics. A topic is done with when
// none is found: then nothing that was on its way when it was removed has come in
// since the time before.
func (n *Node) deleteRemoved(ctx context.Context) error {
	if n.cold == nil {
		return nil
	}
	var failed error
	for _, id := range n.catalog.ColdTopics() {
		// What the topic's partitions upload has ended by then.
		n.placing.Lock()
		deleting := n.deleting[id]
		n.placing.Unlock()
		if deleting != nil {
			select {
			case <-deleting:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if n.cold.isAway() {
			return errors.Join(failed, errAway)
		}
		found, err := n.deleteObjects(ctx, id)
		if err == nil && !found {
			err = n.catalog.ColdGone(id)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// deleteObjects deletes the objects of a removed topic, and tells whether there
// were any.
func (n *Node) deleteObjects(ctx context.Context, id uuid.UUID) (found bool, err error) {
	prefix := tier.TopicPrefix(id)
	for info, err := range n.cold.Store.List(ctx, prefix) {
		if err != nil {
			return found, n.cold.done("list", prefix, err)
		}
		found = true
		if err := n.cold.done("delete", info.Name, n.cold.Store.Delete(ctx, info.Name)); err != nil {
			return found, err
		}
		n.cold.reader.Forget(info.Name)
	}
	return found, nil
}

// ColdTotals are what is in cold storage of the partitions that the node leads,
// and what waits to be uploaded.
type ColdTotals struct {
	Segments, Bytes               int64
	PendingSegments, PendingBytes int64
	// Lag is how long ago the oldest record that waits was written.
	Lag time.Duration
}

// ColdTotals looks at what is in memory alone.
func (n *Node) ColdTotals() ColdTotals {
	var totals ColdTotals
	if n.cold == nil {
		return totals
	}
	now := n.options.Now().UnixMilli()
	for _, p := range n.Partitions() {
		r := p.open.Load()
		if r == nil || !r.View().Readable() {
			continue
		}
		state := r.View().State.Cold
		totals.Segments += int64(len(state.Segments()))
		totals.Bytes += state.Bytes()
		if pending := p.tiering.pending.Load(); pending != nil {
			totals.PendingSegments += pending.segments
			totals.PendingBytes += pending.bytes
			totals.Lag = max(totals.Lag, time.Duration(now-pending.oldestMs)*time.Millisecond)
		}
	}
	return totals
}
