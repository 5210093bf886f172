package cold

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/cold/coldtest"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const objectName = "topic/0/object"

// written is a segment with its batches, and where each begins.
type written struct {
	log     []byte
	batches []recordbatch.Header
	at      []int
}

// write makes a segment of n batches from an offset on, in ascending epochs. gaps
// leaves out offsets, as compaction does.
func write(t testing.TB, rng *rand.Rand, base int64, n int, gaps bool) written {
	var w written
	epoch := int32(1 + rng.IntN(3))
	for range n {
		b := recordbatch.NewBuilder(recordbatch.Options{})
		for range 1 + rng.IntN(3) {
			b.Append(int64(rng.IntN(1000)), nil, make([]byte, rng.IntN(300)), nil)
		}
		batch, err := b.Finish()
		require.NoError(t, err)
		if gaps && rng.IntN(3) == 0 {
			base += int64(rng.IntN(5))
		}
		if rng.IntN(10) == 0 {
			epoch += int32(1 + rng.IntN(2))
		}
		recordbatch.Stamp(batch, base, epoch)
		h, err := recordbatch.ParseHeader(batch)
		require.NoError(t, err)
		w.at = append(w.at, len(w.log))
		w.batches = append(w.batches, h)
		w.log = append(w.log, batch...)
		base = h.NextOffset()
	}
	return w
}

// upload puts what a segment has from an offset on into a store, with an index as
// dense as said.
func (w written) upload(t testing.TB, store *coldtest.Store, base, next, every int64) Located {
	d := NewDraft(bytes.NewReader(w.log), int64(len(w.log)), base)
	d.builder.Interval = every
	for i, at := range w.at {
		require.NoError(t, d.Add(int64(at), w.log[at:at+w.batches[i].Size()]))
	}
	s, err := d.Finish(next)
	require.NoError(t, err)
	require.NoError(t, store.Put(t.Context(), objectName, d, d.Size(), s.CRC))
	s.Term, s.Nonce = 9, 1
	return Located{Name: objectName, Segment: s}
}

func options(store *coldtest.Store) Options {
	return Options{Store: store, CacheBytes: 64 << 10, BlockBytes: 1 << 10, Ahead: 2, Fetches: 3, Timeout: time.Minute}
}

func newReader(t testing.TB, o Options) *Reader {
	r := NewReader(o)
	t.Cleanup(r.Close)
	return r
}

// Whatever a segment holds, and from wherever it is uploaded and read, its batches
// come back as they are on disk, whole, in order and within the limit.
func TestReadsWhatIsOnDisk(t *testing.T) {
	full := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		gaps := rng.IntN(2) == 0
		w := write(t, rng, rng.Int64N(1000), 1+rng.IntN(40), gaps)
		from := rng.IntN(len(w.batches))
		base, next := w.batches[from].BaseOffset, w.batches[len(w.batches)-1].NextOffset()
		if gaps {
			next += int64(rng.IntN(4))
		}
		store := coldtest.New()
		at := w.upload(t, store, base, next, int64(100+rng.IntN(3000)))
		require.Equal(t, w.log[w.at[from]:], store.Object(objectName)[:at.Segment.Size])
		r := newReader(t, options(store))
		for offset := base; offset < next; offset++ {
			bound := offset + 1 + rng.Int64N(next-offset)
			limit := rng.IntN(3000)
			chunk, err := r.Read(t.Context(), at, offset, bound, limit)
			require.NoError(t, err)
			i := from
			for i < len(w.batches) && w.batches[i].NextOffset() <= offset {
				i++
			}
			if i == len(w.batches) || w.batches[i].BaseOffset >= bound {
				require.Empty(t, chunk.Bytes)
				require.Greater(t, chunk.Next, offset)
				continue
			}
			end := i
			for end+1 < len(w.batches) && w.batches[end+1].BaseOffset < bound && w.end(end+1)-w.at[i] <= limit {
				end++
			}
			require.True(t, bytes.HasPrefix(w.log[w.at[i]:w.end(end)], chunk.Bytes), "seed %d offset %d", seed, offset)
			require.GreaterOrEqual(t, len(chunk.Bytes), w.batches[i].Size())
			if len(chunk.Bytes) < w.end(end)-w.at[i] {
				// The rest was not in memory yet; now it is on its way.
				continue
			}
			full++
			require.Equal(t, w.batches[end].NextOffset(), chunk.Next)
		}
	}
	require.Positive(t, full)
}

// What is in memory is read as far as it fits, and no further.
func TestReadsAsMuchAsFits(t *testing.T) {
	w := write(t, rand.New(rand.NewPCG(11, 11)), 0, 60, false)
	store := coldtest.New()
	at := w.upload(t, store, 0, w.batches[59].NextOffset(), 500)
	r := newReader(t, options(store))
	_, err := readAll(t, r, at)
	require.NoError(t, err)
	for limit := 0; limit < len(w.log)+1000; limit += 501 {
		end := 0
		for end+1 < len(w.batches) && w.end(end+1) <= limit {
			end++
		}
		chunk, err := r.Read(t.Context(), at, 0, at.Segment.Next, limit)
		require.NoError(t, err)
		require.Equal(t, w.log[:w.end(end)], chunk.Bytes)
	}
}

func (w written) end(i int) int { return w.at[i] + w.batches[i].Size() }

// The first record of at least a timestamp is found as a scan of all finds it.
func TestFindsTimestamps(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 2))
		w := write(t, rng, 10, 1+rng.IntN(30), false)
		store := coldtest.New()
		next := w.batches[len(w.batches)-1].NextOffset()
		at := w.upload(t, store, 10, next, 500)
		r := newReader(t, options(store))
		var records []recordbatch.Record
		for i := range w.batches {
			for record, err := range recordbatch.Records(w.log[w.at[i]:w.end(i)], recordbatch.Limits{}) {
				require.NoError(t, err)
				records = append(records, record)
			}
		}
		largest := records[0]
		for ts := int64(0); ts < 1000; ts += 7 {
			offset, timestamp, ok, err := r.Find(t.Context(), at, ts, next)
			require.NoError(t, err)
			found := false
			for _, record := range records {
				if record.Timestamp > largest.Timestamp {
					largest = record
				}
				if record.Timestamp >= ts {
					found = true
					require.Equal(t, []int64{record.Offset, record.Timestamp}, []int64{offset, timestamp})
					break
				}
			}
			require.Equal(t, found, ok)
		}
		for _, record := range records {
			if record.Timestamp > largest.Timestamp {
				largest = record
			}
		}
		offset, timestamp, ok, err := r.Largest(t.Context(), at)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, []int64{largest.Offset, largest.Timestamp}, []int64{offset, timestamp})
	}
}

// readAll reads a segment from its start to the first error.
func readAll(t testing.TB, r *Reader, at Located) ([]byte, error) {
	var all []byte
	for offset := at.Segment.Base; offset < at.Segment.Next; {
		chunk, err := r.Read(t.Context(), at, offset, at.Segment.Next, 700)
		if err != nil {
			return all, err
		}
		require.Greater(t, chunk.Next, offset)
		all, offset = append(all, chunk.Bytes...), chunk.Next
	}
	return all, nil
}

// Whichever byte of an object is wrong, or missing, nothing wrong is served: the
// read says that the object is damaged, and serves again once it is repaired. The
// checksum of an index entry covers all that is used of it.
func TestDamageIsNeverServed(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	w := write(t, rng, 5, 12, false)
	store := coldtest.New()
	at := w.upload(t, store, 5, w.batches[len(w.batches)-1].NextOffset(), 300)
	whole := bytes.Clone(store.Object(objectName))
	r := newReader(t, options(store))
	hits := 0
	step := 1
	if testing.Short() {
		step = 7
	}
	for i := 0; i < len(whole); i += step {
		spoilt := bytes.Clone(whole)
		spoilt[i] ^= byte(1 + rng.IntN(255))
		store.Set(objectName, spoilt)
		r.Forget(objectName)
		got, err := readAll(t, r, at)
		require.True(t, bytes.HasPrefix(w.log, got), "byte %d: wrong bytes were served", i)
		if err == nil {
			require.Equal(t, w.log, got)
			continue
		}
		hits++
		require.ErrorIs(t, err, ErrDamaged, "byte %d", i)
		store.Set(objectName, whole)
		got, err = readAll(t, r, at)
		require.NoError(t, err, "what was damaged is fetched anew")
		require.Equal(t, w.log, got)
	}
	require.GreaterOrEqual(t, hits, int(at.Segment.Size)/step, "a byte of the batches was not missed")

	store.Set(objectName, whole[:len(whole)-40])
	r.Forget(objectName)
	_, err := readAll(t, r, at)
	require.ErrorIs(t, err, ErrDamaged)
	require.NoError(t, store.Delete(t.Context(), objectName))
	r.Forget(objectName)
	_, err = readAll(t, r, at)
	require.ErrorIs(t, err, ErrLost)
}

// A length that a batch claims is believed as far as the index bears it out, so it
// costs no more than a real one.
func TestALengthIsNotBelieved(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	w := write(t, rng, 0, 20, false)
	store := coldtest.New()
	at := w.upload(t, store, 0, w.batches[len(w.batches)-1].NextOffset(), 100)
	object := store.Object(objectName)
	h := w.batches[0]
	h.Length = int32(at.Segment.Size) - 12
	recordbatch.PutHeader(object, h)
	_, err := newReader(t, options(store)).Read(t.Context(), at, 0, 100, 0)
	require.ErrorIs(t, err, ErrDamaged)
	require.NotErrorIs(t, err, ErrLost)
}

func TestAStoreThatFailsIsUnavailable(t *testing.T) {
	w := write(t, rand.New(rand.NewPCG(5, 5)), 0, 20, false)
	store := coldtest.New()
	at := w.upload(t, store, 0, w.batches[19].NextOffset(), 100)
	store.Hook(func(context.Context, coldtest.Op, string) coldtest.Fault {
		return coldtest.Fault{Err: coldtest.ErrFault}
	})
	r := newReader(t, options(store))
	_, err := readAll(t, r, at)
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, err, coldtest.ErrFault)
	require.NotErrorIs(t, err, ErrDamaged)
	store.Hook(nil)
	got, err := readAll(t, r, at)
	require.NoError(t, err)
	require.Equal(t, w.log, got)
}

// Many who want the same have it fetched once; one who gives up stops nobody
// else, and a fetch that nobody waits for any more ends.
func TestFetchedOnceAndOnlyWhileWanted(t *testing.T) {
	w := write(t, rand.New(rand.NewPCG(6, 6)), 0, 3, false)
	store := coldtest.New()
	at := w.upload(t, store, 0, w.batches[2].NextOffset(), 1<<20)
	o := options(store)
	o.BlockBytes = 1 << 20
	r := newReader(t, o)
	release, ended := make(chan struct{}), make(chan error, 8)
	store.Hook(func(ctx context.Context, op coldtest.Op, _ string) coldtest.Fault {
		select {
		case <-release:
		case <-ctx.Done():
			ended <- ctx.Err()
		}
		return coldtest.Fault{}
	})
	read := func(ctx context.Context) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := r.Read(ctx, at, 0, at.Segment.Next, 1)
			done <- err
		}()
		return done
	}
	// Who comes when the fetch has ended begins another.
	bothWait := func() {
		t.Helper()
		require.Eventually(t, func() bool {
			r.cache.mu.Lock()
			defer r.cache.mu.Unlock()
			b := r.cache.mu.blocks[blockKey{objectName, indexBlock}]
			return b != nil && b.waiting == 2
		}, 10*time.Second, time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first, second := read(ctx), read(ctx)
	bothWait()
	require.Eventually(t, func() bool { return store.Count(coldtest.ReadAt) == 1 }, 10*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	require.ErrorIs(t, <-second, ErrUnavailable)
	require.ErrorIs(t, <-ended, context.Canceled)

	ctx, cancel = context.WithCancel(t.Context())
	gaveUp, stays := read(ctx), read(t.Context())
	bothWait()
	cancel()
	require.Error(t, <-gaveUp)
	close(release)
	require.NoError(t, <-stays)
	require.Equal(t, 3, store.Count(coldtest.ReadAt), "the index twice, the batches once")
}

// Who does not wait has fetched what he needs, and finds it later.
func TestReadNow(t *testing.T) {
	w := write(t, rand.New(rand.NewPCG(10, 10)), 0, 12, false)
	store := coldtest.New()
	at := w.upload(t, store, 0, w.batches[11].NextOffset(), 500)
	r := newReader(t, options(store))
	release := make(chan struct{})
	store.Hook(func(ctx context.Context, _ coldtest.Op, _ string) coldtest.Fault {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return coldtest.Fault{}
	})
	for range 3 {
		_, err := r.ReadNow(t.Context(), at, 0, at.Segment.Next, 1)
		require.ErrorIs(t, err, ErrPending)
		require.ErrorIs(t, err, ErrUnavailable)
	}
	close(release)
	require.Eventually(t, func() bool {
		chunk, err := r.ReadNow(t.Context(), at, 0, at.Segment.Next, 1)
		return err == nil && bytes.Equal(chunk.Bytes, w.log[:w.end(0)])
	}, 10*time.Second, time.Millisecond)
}

// Who does not wait is told of failures all the same, and each of them starts anew.
func TestReadNowFromAStoreThatFails(t *testing.T) {
	w := write(t, rand.New(rand.NewPCG(12, 12)), 0, 5, false)
	store := coldtest.New()
	at := w.upload(t, store, 0, w.batches[4].NextOffset(), 500)
	store.Hook(func(context.Context, coldtest.Op, string) coldtest.Fault {
		return coldtest.Fault{Err: coldtest.ErrFault}
	})
	r := newReader(t, options(store))
	read := func() error {
		_, err := r.ReadNow(t.Context(), at, 0, at.Segment.Next, 1)
		return err
	}
	for range 3 {
		require.Eventually(t, func() bool { return errors.Is(read(), coldtest.ErrFault) }, 10*time.Second, time.Millisecond)
		require.ErrorIs(t, read(), ErrPending)
	}
	store.Hook(nil)
	require.Eventually(t, func() bool { return read() == nil }, 10*time.Second, time.Millisecond)
}

// However much is read at once, the cache keeps to its size and the requests to
// their number; a reader that goes on finds the next block there.
func TestBounds(t *testing.T) {
	w := write(t, rand.New(rand.NewPCG(7, 7)), 0, 400, false)
	store := coldtest.New()
	at := w.upload(t, store, 0, w.batches[399].NextOffset(), 1000)
	o := options(store)
	o.CacheBytes = 8 << 10
	r := newReader(t, o)
	var now, most atomic.Int64
	store.Hook(func(context.Context, coldtest.Op, string) coldtest.Fault {
		for n := now.Add(1); ; {
			seen := most.Load()
			if n <= seen || most.CompareAndSwap(seen, n) {
				break
			}
		}
		now.Add(-1)
		return coldtest.Fault{}
	})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			got, err := readAll(t, r, at)
			if err != nil || !bytes.Equal(got, w.log) {
				t.Errorf("read %d of %d bytes: %v", len(got), len(w.log), err)
			}
			r.cache.mu.Lock()
			defer r.cache.mu.Unlock()
			if r.cache.mu.bytes > o.CacheBytes {
				t.Errorf("%d bytes in a cache of %d", r.cache.mu.bytes, o.CacheBytes)
			}
		})
	}
	group.Wait()
	require.LessOrEqual(t, most.Load(), int64(o.Fetches))
	require.Greater(t, int64(len(w.log)), 4*o.CacheBytes, "the segment is larger than the cache")
}

func TestClosedWhileItFetches(t *testing.T) {
	w := write(t, rand.New(rand.NewPCG(8, 8)), 0, 3, false)
	store := coldtest.New()
	at := w.upload(t, store, 0, w.batches[2].NextOffset(), 1<<20)
	r := NewReader(options(store))
	store.Hook(func(ctx context.Context, _ coldtest.Op, _ string) coldtest.Fault {
		<-ctx.Done()
		return coldtest.Fault{}
	})
	done := make(chan error, 1)
	go func() {
		_, err := r.Read(t.Context(), at, 0, 10, 1)
		done <- err
	}()
	require.Eventually(t, func() bool { return store.Count(coldtest.ReadAt) == 1 }, 10*time.Second, time.Millisecond)
	r.Close()
	require.ErrorIs(t, <-done, ErrUnavailable)
	_, err := r.Read(t.Context(), at, 0, 10, 1)
	require.ErrorIs(t, err, ErrUnavailable)
}

// FuzzObject reads an object of which any bytes were changed: nothing but the
// batches that were uploaded comes out, and nothing panics.
func FuzzObject(f *testing.F) {
	w := write(f, rand.New(rand.NewPCG(9, 9)), 100, 8, false)
	store := coldtest.New()
	at := w.upload(f, store, 100, w.batches[7].NextOffset(), 200)
	whole := bytes.Clone(store.Object(objectName))
	f.Add(uint16(0), []byte{1}, uint8(0))
	f.Add(uint16(8), []byte{0xff, 0xff, 0xff, 0x7f}, uint8(0))
	f.Add(uint16(at.Segment.Size), []byte("SluiceIx"), uint8(3))
	f.Fuzz(func(t *testing.T, position uint16, change []byte, cut uint8) {
		spoilt := bytes.Clone(whole)
		copy(spoilt[int(position)%len(spoilt):], change)
		store := coldtest.New()
		store.Set(objectName, spoilt[:max(len(spoilt)-int(cut), 0)])
		r := NewReader(options(store))
		defer r.Close()
		got, err := readAll(t, r, at)
		require.True(t, bytes.HasPrefix(w.log, got))
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
		}
		for ts := range int64(3) {
			if _, _, _, err := r.Find(t.Context(), at, ts*400, at.Segment.Next); err != nil {
				require.ErrorIs(t, err, ErrDamaged)
			}
		}
	})
}

// A store whose client panics fails the reads that wait for it, and no others.
func TestAStoreThatPanics(t *testing.T) {
	w := write(t, rand.New(rand.NewPCG(7, 7)), 0, 3, false)
	store := coldtest.New()
	at := w.upload(t, store, 0, w.batches[2].NextOffset(), 1<<20)
	r := newReader(t, options(store))
	store.Hook(func(context.Context, coldtest.Op, string) coldtest.Fault { panic("broken") })
	_, err := r.Read(t.Context(), at, 0, at.Segment.Next, 1)
	require.ErrorContains(t, err, "panic: broken")
	store.Hook(nil)
	_, err = r.Read(t.Context(), at, 0, at.Segment.Next, 1)
	require.NoError(t, err)
}
