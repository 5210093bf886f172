package node

import (
	"context"
	"errors"
	"fmt"
	"time"

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
}

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

func (p *Partition) coldPrefix() string { return tier.Prefix(p.key.Topic, p.key.Partition) }

func (p *Partition) located(s tier.Segment) cold.Located {
	return cold.Located{Name: s.Object.Name(p.coldPrefix()), Segment: s}
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
		found := false
		err := func() error {
			for info, err := range n.cold.Store.List(ctx, tier.TopicPrefix(id)) {
				if err != nil {
					return err
				}
				found = true
				// It may be placed again by now, with objects of its own. One that was
				// listed before is the old one's: no name is used twice.
				if !n.catalog.IsColdTopic(id) {
					return nil
				}
				if err := n.cold.Store.Delete(ctx, info.Name); err != nil {
					return err
				}
				n.cold.reader.Forget(info.Name)
			}
			return nil
		}()
		if err == nil && !found {
			err = n.catalog.ColdGone(id)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("delete cold storage of removed topic %s: %w", id, err))
		}
	}
	return failed
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
