package clean

import (
	"fmt"
	"math"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// Rules are what cleaning goes by.
type Rules struct {
	// From is the offset from which on records are new.
	From int64
	// NowMs is the wall clock.
	NowMs int64
	// TombstoneMs is how long a tombstone stays after it is first seen.
	TombstoneMs int64
	// MaxInflate bounds what the records of a batch may inflate to.
	MaxInflate int
}

// Cleaner cleans a log once. It is not for use by several goroutines.
type Cleaner struct {
	rules  Rules
	keys   *Keys
	to     int64 // offsets below it are learned, or were clean before
	reader recordbatch.Reader
	kept   []byte // of records; kept over batches
}

// New makes a cleaner that has learned nothing.
func New(rules Rules, keys *Keys) *Cleaner {
	return &Cleaner{rules: rules, keys: keys, to: rules.From}
}

// Learned is the offset below which a pass over the log leaves it clean.
func (c *Cleaner) Learned() int64 { return c.to }

// Learn notes the keys of a batch. Batches come in order, and all from the one
// with Rules.From on. It returns false when there is no room for all of them:
// then learning is over.
func (c *Cleaner) Learn(batch []byte) (all bool, err error) {
	h, err := recordbatch.ParseHeader(batch)
	if err != nil {
		return false, fmt.Errorf("learn keys: %w", err)
	}
	if !untouchable(h) {
		if err := c.reader.Reset(batch, c.limits()); err != nil {
			return false, fmt.Errorf("learn keys of batch %d: %w", h.BaseOffset, err)
		}
		for c.reader.Next() {
			r := &c.reader.Record
			if r.Offset < c.to || r.Key == nil {
				continue
			}
			if !c.keys.put(r.Key, r.Offset) {
				return false, nil
			}
			c.to = r.Offset + 1
		}
		if err := c.reader.Err(); err != nil {
			return false, fmt.Errorf("learn keys of batch %d: %w", h.BaseOffset, err)
		}
	}
	c.to = max(c.to, h.NextOffset())
	return true, nil
}

func (c *Cleaner) limits() recordbatch.Limits {
	return recordbatch.Limits{MaxInflate: c.rules.MaxInflate}
}

// untouchable are the batches of transactions.
func untouchable(h recordbatch.Header) bool {
	return h.Attributes.Control() || h.Attributes.Transactional()
}

// Cleaned is what is to stay of a batch.
type Cleaned struct {
	// Batch is nil if nothing is. It may be the batch that was given, and is
	// valid until the next call.
	Batch []byte
	// Dropped is how many records went.
	Dropped int
	// HorizonMs is until when the batch has tombstones to keep; 0: it has none.
	HorizonMs int64
}

// Clean says what is to stay of a batch. last says that it is its producer's
// last one, which stays even without records.
func (c *Cleaner) Clean(batch []byte, last bool) (Cleaned, error) {
	h, err := recordbatch.ParseHeader(batch)
	if err != nil {
		return Cleaned{}, fmt.Errorf("clean: %w", err)
	}
	switch {
	case untouchable(h) || h.BaseOffset >= c.to:
		return Cleaned{Batch: batch, HorizonMs: horizonOf(h)}, nil
	case h.Count == 0 && last:
		return Cleaned{Batch: batch}, nil
	case h.Count == 0:
		return Cleaned{}, nil
	}
	out, kept, err := c.sift(batch, h)
	if err != nil {
		return Cleaned{}, fmt.Errorf("clean batch %d: %w", h.BaseOffset, err)
	}
	out.Dropped = int(h.Count - kept.count)
	switch {
	case kept.count == 0 && last:
		out.Batch = Empty(h)
	case kept.count == 0:
	case out.Dropped == 0 && kept.horizon == horizonOf(h):
		out.Batch = batch
	default:
		out.Batch, err = c.rebuild(h, kept)
	}
	return out, err
}

// kept are the records that stay.
type kept struct {
	count        int32
	maxTimestamp int64
	horizon      int64 // of the batch; 0: none
}

// sift goes over the records of a batch, and leaves those that stay in c.kept,
// encoded for a batch with the horizon that it returns.
func (c *Cleaner) sift(batch []byte, h recordbatch.Header) (Cleaned, kept, error) {
	k := kept{maxTimestamp: -1, horizon: horizonOf(h)}
	expired := k.horizon != 0 && k.horizon <= c.rules.NowMs
	tombstones, err := c.each(batch, func(r *recordbatch.Record) bool { return c.stays(r, expired) }, &k)
	if err != nil {
		return Cleaned{}, k, err
	}
	if tombstones && k.horizon == 0 && h.NextOffset() <= c.to {
		// Told from another base, the timestamps are other bytes.
		horizon := c.horizon()
		k = kept{maxTimestamp: -1, horizon: horizon}
		if _, err := c.each(batch, func(r *recordbatch.Record) bool { return c.stays(r, false) }, &k); err != nil {
			return Cleaned{}, k, err
		}
	}
	out := Cleaned{}
	if tombstones {
		out.HorizonMs = k.horizon
	}
	return out, k, nil
}

// horizon is that of the tombstones that are first seen now.
func (c *Cleaner) horizon() int64 {
	if c.rules.TombstoneMs > math.MaxInt64-c.rules.NowMs {
		return math.MaxInt64
	}
	return c.rules.NowMs + max(c.rules.TombstoneMs, 0)
}

// horizonOf is the horizon of a batch that has one, else 0.
func horizonOf(h recordbatch.Header) int64 {
	if h.Attributes.HorizonSet() {
		return h.BaseTimestamp
	}
	return 0
}

// stays says whether a record does. expired says that the horizon of its batch
// is over.
func (c *Cleaner) stays(r *recordbatch.Record, expired bool) bool {
	switch {
	case r.Offset >= c.to:
		return true
	case r.Key == nil, expired && tombstone(r):
		return false
	default:
		return c.keys.newest(r.Key) <= r.Offset
	}
}

func tombstone(r *recordbatch.Record) bool { return len(r.Value) == 0 }
