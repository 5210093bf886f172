package cold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
	"github.com/sluiceio/sluice/services/storage/internal/tier"
)

// Options are what a reader is made of. All are required.
type Options struct {
	Store blob.Store
	// CacheBytes bounds the blocks that are kept, BlockBytes is the size of one.
	CacheBytes, BlockBytes int64
	// Ahead is how many blocks are fetched before a reader that goes through an
	// object asks for them.
	Ahead int
	// Fetches bounds the requests to the store at a time, Timeout each of them with
	// its wait for a turn.
	Fetches int
	Timeout time.Duration
}

// Reader reads the objects of a node's partitions.
type Reader struct {
	options Options
	cache   *cache
	fetches *semaphore.Weighted
}

// NewReader makes a reader, to be closed.
func NewReader(options Options) *Reader {
	return &Reader{options: options, cache: newCache(options.CacheBytes), fetches: semaphore.NewWeighted(int64(options.Fetches))}
}

// Close ends what is under way. Reads fail from then on.
func (r *Reader) Close() { r.cache.end() }

// Located is a segment with the name of its object.
type Located struct {
	Name    string
	Segment tier.Segment
}

// Forget forgets what is in memory of an object.
func (r *Reader) Forget(name string) { r.cache.drop(name) }

// Chunk is a run of whole batches.
type Chunk struct {
	Bytes []byte
	// Next is the offset at which to go on.
	Next int64
}

// Read returns whole batches of a segment, from the one that holds offset on:
// those whose base is below bound, as many as fit into maxBytes and are in memory,
// but the first in any case. Every batch is verified. ErrUnavailable, ErrDamaged or
// ErrLost.
func (r *Reader) Read(ctx context.Context, at Located, offset, bound int64, maxBytes int) (Chunk, error) {
	return r.read(r.open(ctx, at), offset, bound, maxBytes)
}

// ReadNow is Read that waits for nothing: ErrPending has what is missing fetched. If
// that fails the next ReadNow says so.
func (r *Reader) ReadNow(ctx context.Context, at Located, offset, bound int64, maxBytes int) (Chunk, error) {
	o := r.open(ctx, at)
	o.now = true
	return r.read(o, offset, bound, maxBytes)
}

func (r *Reader) read(o *object, offset, bound int64, maxBytes int) (Chunk, error) {
	chunk, err := o.read(offset, bound, maxBytes)
	return chunk, o.failed(err)
}

// Find finds the first record of a segment with at least a timestamp, in the
// batches whose base is below bound.
func (r *Reader) Find(ctx context.Context, at Located, ts, bound int64) (offset, timestamp int64, ok bool, err error) {
	o := r.open(ctx, at)
	place, err := o.seek(
		// All before such an entry is too old.
		func(e segment.IndexEntry) bool { return e.MaxTimestamp < ts },
		func(b segment.Batch) bool { return b.Header.MaxTimestamp < ts && b.Header.BaseOffset < bound })
	if err != nil || place.Position >= at.Segment.Size || place.Offset >= bound {
		return 0, 0, false, o.failed(err)
	}
	offset, timestamp, ok, err = o.recordFrom(place, ts)
	return offset, timestamp, ok, o.failed(err)
}

// Largest finds the first record with the largest timestamp of a segment that has
// any.
func (r *Reader) Largest(ctx context.Context, at Located) (offset, timestamp int64, ok bool, err error) {
	o := r.open(ctx, at)
	place, err := o.seekOffset(at.Segment.MaxTimestampOffset)
	if err != nil || place.Position >= at.Segment.Size {
		return 0, 0, false, o.failed(err)
	}
	offset, timestamp, ok, err = o.recordFrom(place, at.Segment.MaxTimestamp)
	return offset, timestamp, ok, o.failed(err)
}

// object is an object that somebody reads.
type object struct {
	Located
	r   *Reader
	ctx context.Context
	// now tells that the caller does not wait for what is not in memory.
	now bool
	// index is nil until it is needed.
	index *segment.IndexReader
}

func (r *Reader) open(ctx context.Context, at Located) *object {
	return &object{Located: at, r: r, ctx: ctx}
}

// failed gives an error its kind, and has what is damaged fetched anew the next
// time: it may have been damaged on the way.
func (o *object) failed(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, segment.ErrCorrupt) || errors.Is(err, segment.ErrBadIndex):
		err = damaged(o.Name, "%v", err)
	}
	if errors.Is(err, ErrDamaged) {
		o.r.Forget(o.Name)
	}
	return err
}

// ReadAt reads the batches of the object, through the cache.
func (o *object) ReadAt(p []byte, off int64) (n int, err error) {
	size := o.r.options.BlockBytes
	for n < len(p) {
		at := off + int64(n)
		if at >= o.Segment.Size {
			return n, io.EOF
		}
		number := at / size
		b, err := o.block(number)
		if err != nil {
			return n, err
		}
		n += copy(p[n:], b[at-number*size:])
	}
	return n, nil
}

// block returns a block of the batches. Who reads one after the other will want the
// next ones, too.
func (o *object) block(number int64) ([]byte, error) {
	sequential := number == 0 || o.r.cache.has(blockKey{o.Name, number - 1})
	b, err := o.get(number, o.fetchBlock(number))
	if err == nil && sequential {
		for next := number + 1; next <= number+int64(o.r.options.Ahead) && next*o.r.options.BlockBytes < o.Segment.Size; next++ {
			o.r.cache.ahead(blockKey{o.Name, next}, o.fetchBlock(next))
		}
	}
	return b, err
}

// get returns a block of the object.
func (o *object) get(number int64, fetch func(context.Context) ([]byte, error)) ([]byte, error) {
	key := blockKey{o.Name, number}
	if o.now {
		return o.r.cache.now(key, fetch)
	}
	return o.r.cache.get(o.ctx, key, fetch)
}

func (o *object) fetchBlock(number int64) func(context.Context) ([]byte, error) {
	size := o.r.options.BlockBytes
	from := number * size
	return o.fetch(from, min(size, o.Segment.Size-from))
}

// fetch is a request for a range of the object.
func (o *object) fetch(off, size int64) func(context.Context) ([]byte, error) {
	r, name := o.r, o.Name
	return func(ctx context.Context) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, r.options.Timeout)
		defer cancel()
		if err := r.fetches.Acquire(ctx, 1); err != nil {
			return nil, waited(ctx)
		}
		defer r.fetches.Release(1)
		b := make([]byte, size)
		n, err := r.options.Store.ReadAt(ctx, name, b, off)
		if n == len(b) {
			return b, nil
		}
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return nil, storeFailed(name, err)
	}
}

// entries is the object's index.
func (o *object) entries() (*segment.IndexReader, error) {
	if o.index != nil {
		return o.index, nil
	}
	s := o.Segment
	n := segment.IndexLen(s.IndexSize)
	if s.IndexSize != segment.IndexSize(n) || n > maxEntries {
		return nil, damaged(o.Name, "an index of %d bytes", s.IndexSize)
	}
	b, err := o.get(indexBlock, o.fetch(s.Size, s.IndexSize))
	if err != nil {
		return nil, err
	}
	index := &segment.IndexReader{Of: indexOf(s.Base), R: bytes.NewReader(b), N: n}
	if err := index.CheckHead(); err != nil {
		return nil, err
	}
	o.index = index
	return index, nil
}

// seek finds the first batch that is not before a place; see raftlog. It returns
// the end of the segment if there is none.
func (o *object) seek(earlier func(segment.IndexEntry) bool, skip func(segment.Batch) bool) (segment.At, error) {
	index, err := o.entries()
	if err != nil {
		return segment.At{}, err
	}
	e, i, err := index.Last(earlier)
	if err != nil {
		return segment.At{}, err
	}
	from := segment.At{Offset: o.Segment.Base}
	if i >= 0 {
		from = e.At
	}
	walk := segment.Walk
	if o.Segment.Gaps {
		walk = segment.WalkGaps
	}
	return walk(o, o.Segment.Size, from, skip)
}

func (o *object) seekOffset(offset int64) (segment.At, error) {
	return o.seek(
		func(e segment.IndexEntry) bool { return e.Offset <= offset },
		func(b segment.Batch) bool { return b.Header.NextOffset() <= offset })
}

func (o *object) read(offset, bound int64, maxBytes int) (Chunk, error) {
	s := o.Segment
	at, err := o.seekOffset(offset)
	if err != nil {
		return Chunk{}, err
	}
	switch {
	case at.Position >= s.Size:
		return Chunk{Next: s.Next}, nil // nothing is left after a gap
	case at.Offset >= bound:
		return Chunk{Next: max(offset, min(at.Offset, bound))}, nil
	}
	first, err := o.sizeAt(at)
	if err != nil {
		return Chunk{}, err
	}
	// The first batch is waited for, and no more: the rest comes with the next read.
	want := min(s.Size-at.Position, int64(maxBytes))
	b := make([]byte, max(first, o.ready(at.Position, want)))
	if _, err := o.ReadAt(b, at.Position); err != nil {
		return Chunk{}, err
	}
	n, next, err := o.check(at, b, bound)
	return Chunk{Bytes: b[:n:n], Next: next}, err
}

// ready is how many of the bytes wanted from a position on are in memory.
func (o *object) ready(position, want int64) int64 {
	size := o.r.options.BlockBytes
	at := position
	for at < position+want && o.r.cache.ready(blockKey{o.Name, at / size}) {
		at = (at/size + 1) * size
	}
	return min(want, at-position)
}

// sizeAt is the size of the batch at a place. No checksum covers it, but batches
// do not reach over the next entry of the index.
func (o *object) sizeAt(at segment.At) (int64, error) {
	var head [segment.HeaderSize]byte
	if n, err := o.ReadAt(head[:], at.Position); n < len(head) {
		if errors.Is(err, io.EOF) {
			return 0, o.badBatch(at.Position)
		}
		return 0, err
	}
	h, err := recordbatch.ParseHeader(head[:])
	if err != nil {
		return 0, o.badBatch(at.Position)
	}
	index, err := o.entries()
	if err != nil {
		return 0, err
	}
	_, i, err := index.Last(func(e segment.IndexEntry) bool { return e.Position <= at.Position })
	if err != nil {
		return 0, err
	}
	end := o.Segment.Size
	if i+1 < index.N {
		following, err := index.Entry(i + 1)
		if err != nil {
			return 0, err
		}
		end = following.Position
	}
	if int64(h.Size()) > end-at.Position {
		return 0, o.badBatch(at.Position)
	}
	return int64(h.Size()), nil
}

// check says how many bytes of b, which begin at a place, are whole batches with a
// base below bound, and what offset comes after them.
func (o *object) check(at segment.At, b []byte, bound int64) (n int, next int64, err error) {
	s := o.Segment
	for next = at.Offset; n+segment.HeaderSize <= len(b); {
		h, err := recordbatch.ParseHeader(b[n:])
		if err != nil || h.BaseOffset < next || h.BaseOffset > next && !s.Gaps || h.NextOffset() > s.Next ||
			h.LeaderEpoch != s.EpochAt(h.BaseOffset) {
			return 0, 0, o.badBatch(at.Position + int64(n))
		}
		if h.BaseOffset >= bound || h.Size() > len(b)-n {
			break
		}
		if recordbatch.CheckCRC(b[n:n+h.Size()]) != nil {
			return 0, 0, o.badBatch(at.Position + int64(n))
		}
		n += h.Size()
		next = h.NextOffset()
	}
	if n == 0 {
		return 0, 0, o.badBatch(at.Position)
	}
	return n, next, nil
}

func (o *object) badBatch(position int64) error {
	return damaged(o.Name, "bad batch at %d", position)
}

// recordFrom finds the first record with at least a timestamp in the batch at a
// place.
func (o *object) recordFrom(at segment.At, ts int64) (offset, timestamp int64, ok bool, err error) {
	size, err := o.sizeAt(at)
	if err != nil {
		return 0, 0, false, err
	}
	batch := make([]byte, size)
	if _, err := o.ReadAt(batch, at.Position); err != nil {
		return 0, 0, false, err
	}
	if _, _, err := o.check(at, batch, o.Segment.Next); err != nil {
		return 0, 0, false, err
	}
	for record, err := range recordbatch.Records(batch, recordbatch.Limits{}) {
		if err != nil {
			return 0, 0, false, fmt.Errorf("%w: records at %d: %w", segment.ErrCorrupt, at.Position, err)
		}
		if record.Timestamp >= ts {
			return record.Offset, record.Timestamp, true, nil
		}
	}
	return 0, 0, false, nil
}
