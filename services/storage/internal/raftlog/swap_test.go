package raftlog_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// compactable is a log with batches of one record, of which some segments are
// sealed, and terms change on the way.
type compactable struct {
	*world
	next  int64
	index uint64
	term  uint64
}

func newCompactable(t testing.TB, seed uint64) *compactable {
	c := &compactable{world: newWorld(t, seed), index: 2, term: 1}
	c.limits = raftlog.Limits{SegmentBytes: 400, SegmentMs: 1 << 40, IndexInterval: 1 + int64(seed%3)*90}
	for range 4 {
		c.write(7)
	}
	return c
}

// write begins a term and adds batches; batch n has the timestamp 1000+n.
func (c *compactable) write(batches int) {
	c.term++
	require.NoError(c.t, c.log.Write(inTerm(c.term, c.index)))
	c.index++
	for range batches {
		b := batch(c.t, c.next, int32(c.term), fmt.Appendf(nil, "value %d", c.next), 1000+c.next)
		require.NoError(c.t, c.log.Write(raftlog.Write{Entries: one(entryOf(c.index, c.term, b)), Payloads: [][]byte{b}, Commit: c.index}))
		c.next, c.index = c.next+1, c.index+1
	}
}

func (c *compactable) point() raftlog.Point {
	return raftlog.Point{Applied: c.index - 1, ConfState: confState(1), State: []byte("state")}
}

// kept says which records a compaction leaves.
type kept func(offset int64) bool

// compact rewrites sealed segments, so many at once, and calls done after each
// swap with the offsets that were swapped.
func (c *compactable) compact(at int, keep kept, done func(from, to int64)) error {
	stats := c.log.Stats().Segments
	sealed := stats[:len(stats)-1]
	for len(sealed) > 0 {
		group := sealed[:min(at, len(sealed))]
		sealed = sealed[len(group):]
		w, err := c.log.Rewrite(group)
		if err != nil {
			return err
		}
		var last []byte
		for _, s := range group {
			err := c.log.Scan(s.Base, s.Generation, func(b []byte) error {
				h, err := recordbatch.ParseHeader(b)
				last = append([]byte(nil), b...)
				if err != nil || !keep(h.BaseOffset) {
					w.Change()
					return err
				}
				return w.Append(b)
			})
			if err != nil {
				return err
			}
		}
		if w.Empty() {
			w.Change()
			if err := w.Append(last); err != nil {
				return err
			}
		}
		end := group[len(group)-1].Next
		if err := w.Finish(end, 0); err != nil {
			return err
		}
		if err := c.log.Swap(w, c.point()); err != nil {
			return err
		}
		done(group[0].Base, end)
	}
	return nil
}

// offsets are those of all records that a reader finds from an offset on.
func (c *compactable) offsets(from int64, most int) (found []int64) {
	for at := from; at < c.next; {
		chunk, err := c.log.Read(at, c.next, most)
		require.NoError(c.t, err)
		require.Greater(c.t, chunk.Next, at, "a reader in a gap gets out of it")
		rest := chunk.Bytes
		for len(rest) > 0 {
			b, r, err := recordbatch.Next(rest)
			require.NoError(c.t, err)
			h, _ := recordbatch.ParseHeader(b)
			if h.NextOffset() > at {
				found = append(found, h.BaseOffset)
			}
			rest = r
		}
		at = chunk.Next
	}
	return found
}

// verify reads the log in every way that there is.
func (c *compactable) verify(want []int64) {
	t := c.t
	require.Equal(t, want, c.offsets(0, 1), "batch by batch")
	require.Equal(t, want, c.offsets(0, 1<<20))
	for from := range c.next {
		var left []int64
		for _, offset := range want {
			if offset >= from {
				left = append(left, offset)
			}
		}
		require.Equal(t, left, c.offsets(from, 100))
		require.Positive(t, c.log.EpochAt(from))
		offset, ts, ok, err := c.log.FindTimestamp(1000+from, c.next)
		require.NoError(t, err)
		require.Equal(t, len(left) > 0, ok)
		if ok {
			require.Equal(t, []int64{left[0], 1000 + left[0]}, []int64{offset, ts})
		}
		// A reader that knows of less than there is must not see more, nor fail.
		for bound := from; bound <= c.next; bound += 3 {
			chunk, err := c.log.Read(from, bound, 1)
			require.NoError(t, err)
			require.True(t, chunk.Next >= from && (chunk.Next <= bound || len(chunk.Bytes) > 0), "read %d below %d goes on at %d", from, bound, chunk.Next)
		}
	}
	offset, _, ok, err := c.log.MaxTimestamp(c.next)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, want[len(want)-1], offset)
	first, err := c.log.FirstIndex()
	require.NoError(t, err)
	last, err := c.log.LastIndex()
	require.NoError(t, err)
	require.Equal(t, c.index-1, last)
	entries, err := c.log.Entries(first, last+1, 1<<30)
	require.NoError(t, err)
	require.Len(t, entries, int(last+1-first))
}

func all(n int64) (offsets []int64) {
	for i := range n {
		offsets = append(offsets, i)
	}
	return offsets
}

func some(n int64, keep kept, sealed int64) (offsets []int64) {
	for i := range n {
		if i >= sealed || keep(i) {
			offsets = append(offsets, i)
		}
	}
	return offsets
}

func (c *compactable) sealed() int64 {
	stats := c.log.Stats().Segments
	return stats[len(stats)-1].Base
}

func TestSwap(t *testing.T) {
	none := func(int64, int64) {}
	for seed := range uint64(6) {
		for _, at := range []int{1, 2, 100} {
			c := newCompactable(t, seed)
			c.verify(all(c.next))
			before := len(c.log.Stats().Segments)
			odd := func(offset int64) bool { return offset%2 == 1 }
			require.NoError(t, c.compact(at, odd, none))
			want := some(c.next, odd, c.sealed())
			c.verify(want)
			after := c.log.Stats()
			require.Less(t, len(after.Segments), before+1)
			if at == 100 {
				require.Len(t, after.Segments, 2)
			}
			for _, s := range after.Segments[:len(after.Segments)-1] {
				require.Equal(t, s.Next, s.CleanTo)
				require.LessOrEqual(t, s.Next, int64(after.FirstIndex), "below the first index")
			}

			// It goes on, is stopped and killed, and cleaned once more.
			c.write(9)
			want = append(want, all(c.next)[c.next-9:]...)
			c.verify(want)
			p := c.point()
			require.NoError(t, c.log.Close(&p))
			c.reopenAs(c.disk)
			c.verify(want)
			few := func(offset int64) bool { return offset%5 == 1 }
			require.NoError(t, c.compact(at, few, none))
			c.write(2)
			c.reopenAs(c.disk.Kill())
			got := c.offsets(0, 1<<20)
			c.verify(got)
			for _, offset := range got {
				require.True(t, offset >= c.sealed() || few(offset) || at < 100, "offset %d", offset)
			}
			require.Empty(t, c.filesOf(".rewritten"))
		}
	}
}

func (c *compactable) reopenAs(disk *memfs.FS) {
	c.disk = disk
	c.files = raftlog.NewFileCache(3)
	log, err := raftlog.Open(c.options())
	require.NoError(c.t, err)
	c.log = log
}

// A segment of which everything stays keeps its file, and its indexes.
func TestSwapOfAnUnchangedSegment(t *testing.T) {
	c := newCompactable(t, 1)
	files := c.filesOf(".log")
	require.NoError(t, c.compact(1, func(int64) bool { return true }, func(int64, int64) {}))
	require.Equal(t, files, c.filesOf(".log"))
	for _, s := range c.log.Stats().Segments[:2] {
		require.Zero(t, s.Generation)
		require.Equal(t, s.Next, s.CleanTo)
	}
	c.verify(all(c.next))
	c.reopenAs(c.disk.Kill())
	c.verify(all(c.next))
}

// What was dropped or replaced meanwhile is not swapped.
func TestSwapOfWhatIsNoLongerThere(t *testing.T) {
	c := newCompactable(t, 1)
	stats := c.log.Stats().Segments
	w, err := c.log.Rewrite(stats[:2])
	require.NoError(t, err)
	w.Change()
	require.NoError(t, w.Append(batch(t, 0, 2, nil, 1)))
	require.ErrorIs(t, c.log.Swap(w, c.point()), raftlog.ErrInvalid, "it is not finished")
	require.NoError(t, w.Finish(stats[1].Next, 0))
	name := dir + "/" + c.filesOf(".rewritten")[0]
	require.Contains(t, name, ".log.")
	require.NoError(t, c.disk.Rename(name, name+".away"))
	require.ErrorIs(t, c.log.Swap(w, c.point()), raftlog.ErrReplaced, "a snapshot has taken the folder's place")
	require.NoError(t, c.disk.Rename(name+".away", name))
	low := c.point()
	low.Applied = 2
	require.ErrorIs(t, c.log.Swap(w, low), raftlog.ErrInvalid, "not applied yet")
	require.NoError(t, c.log.WritePoint(c.point()))
	_, _, err = c.log.DropBefore(stats[0].Next)
	require.NoError(t, err)
	require.ErrorIs(t, c.log.Swap(w, c.point()), raftlog.ErrReplaced)
	require.NoError(t, w.Abort())
	require.Empty(t, c.filesOf(".rewritten"))
	require.ErrorIs(t, c.log.Scan(0, 0, nil), raftlog.ErrReplaced)
	_, err = c.log.Rewrite(stats[:2])
	require.ErrorIs(t, err, raftlog.ErrReplaced)
}

// Wherever the process dies, by a kill or with the power, in a compaction or in
// the start after it, each part of the log is the old one or the new one whole,
// the new one once the swap was acknowledged, and it can be read, written to and
// compacted on.
func TestSwapCrashes(t *testing.T) {
	odd := func(offset int64) bool { return offset%2 == 1 }
	for _, kill := range []bool{true, false} {
		for _, at := range []int{1, 3} {
			for dieAt := 1; ; dieAt++ {
				c := newCompactable(t, uint64(dieAt))
				c.rng = rand.New(rand.NewPCG(uint64(dieAt), uint64(at)))
				sealed := c.sealed()
				groups := map[int64]bool{} // swapped offsets
				bounds := map[int64]int64{}
				stats := c.log.Stats().Segments
				for i := 0; i < len(stats)-1; i += at {
					end := min(i+at, len(stats)-1)
					bounds[stats[i].Base] = stats[end-1].Next
				}
				c.dieAt, c.ops = dieAt, 0
				err := c.compact(at, odd, func(from, _ int64) { groups[from] = true })
				if !c.dead {
					require.NoError(t, err)
					require.Greater(t, dieAt, 40)
					break
				}
				c.survive(kill)
				for base, end := range bounds {
					var got []int64
					for _, offset := range c.offsets(0, 1<<20) {
						if offset >= base && offset < end {
							got = append(got, offset)
						}
					}
					fresh := some(end, odd, end)
					fresh = fresh[len(some(base, odd, base)):]
					if len(got) != len(fresh) {
						require.False(t, groups[base], "an acknowledged swap is undone: %v", got)
						require.Equal(t, all(end)[base:], got)
						continue
					}
					require.Equal(t, fresh, got)
				}
				c.verify(c.offsets(0, 1<<20))
				require.Empty(t, c.filesOf(".rewritten"))
				c.write(3)
				require.NoError(t, c.compact(2, odd, func(int64, int64) {}))
				want := some(c.next, odd, c.sealed())
				got := c.offsets(0, 1<<20)
				require.Subset(t, got, want)
				require.GreaterOrEqual(t, c.sealed(), sealed)
				c.reopenAs(c.disk.Crash(c.rng))
				c.verify(got)
			}
		}
	}
}

// survive opens what a dead process left, perhaps dying in that too.
func (c *compactable) survive(kill bool) {
	for tries := 0; ; tries++ {
		if kill {
			c.disk = c.disk.Kill()
		} else {
			c.disk = c.disk.Crash(c.rng)
		}
		c.files = raftlog.NewFileCache(3)
		c.dead, c.ops, c.dieAt = false, 0, 0
		if tries < 3 && c.rng.IntN(2) == 0 {
			c.dieAt = 1 + c.rng.IntN(25)
		}
		log, err := raftlog.Open(c.options())
		if c.dead {
			continue
		}
		c.dieAt = 0
		require.NoError(c.t, err)
		c.log = log
		return
	}
}

// Readers that are under way are not disturbed: each sees every record that
// stays, in order, and the records of before or of after.
func TestReadersDuringSwaps(t *testing.T) {
	c := newCompactable(t, 2)
	o := c.options()
	o.FS = c.disk // the hook is for one goroutine
	p := c.point()
	require.NoError(t, c.log.Close(&p))
	log, err := raftlog.Open(o)
	require.NoError(t, err)
	c.log = log
	tens := func(offset int64) bool { return offset%10 == 0 }
	stop := make(chan struct{})
	failed := make(chan string, 8)
	for range 4 {
		go func() {
			defer func() { failed <- "" }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				last, seen := int64(-1), map[int64]bool{}
				for at := int64(0); at < c.next; {
					chunk, err := c.log.Read(at, c.next, 150)
					if err != nil || chunk.Next <= at {
						failed <- fmt.Sprintf("read at %d: %+v: %v", at, chunk, err)
						return
					}
					for rest := chunk.Bytes; len(rest) > 0; {
						var b []byte
						if b, rest, err = recordbatch.Next(rest); err != nil {
							failed <- err.Error()
							return
						}
						h, _ := recordbatch.ParseHeader(b)
						if h.BaseOffset <= last {
							failed <- fmt.Sprintf("offset %d after %d", h.BaseOffset, last)
						}
						last, seen[h.BaseOffset] = h.BaseOffset, true
					}
					at = chunk.Next
				}
				for offset := range c.next {
					if tens(offset) && !seen[offset] {
						failed <- fmt.Sprintf("offset %d is not there", offset)
					}
				}
			}
		}()
	}
	for _, every := range []int64{2, 5, 10} {
		for _, at := range []int{1, 2} {
			require.NoError(t, c.compact(at, func(offset int64) bool { return offset%every == 0 }, func(int64, int64) {}))
		}
	}
	close(stop)
	var said []string
	for range 4 {
		if s := <-failed; s != "" {
			said = append(said, s)
		}
	}
	require.Empty(t, strings.Join(said, "; "))
}

// A snapshot of a compacted log can be received, and only whole.
func TestSnapshotOfACompactedLog(t *testing.T) {
	c := newCompactable(t, 3)
	odd := func(offset int64) bool { return offset%2 == 1 }
	require.NoError(t, c.compact(2, odd, func(int64, int64) {}))
	require.NoError(t, c.log.WritePoint(c.point()))
	snapshot, err := c.log.Snapshot()
	require.NoError(t, err)

	other := newWorld(t, 9)
	other.limits = c.limits
	require.NoError(t, other.receive(c.log, snapshot))
	to := &compactable{world: other, next: c.next, index: c.index, term: c.term}
	to.verify(c.offsets(0, 1<<20))
	to.write(3)
	to.reopenAs(other.disk.Kill())
	to.verify(append(c.offsets(0, 1<<20), c.next, c.next+1, c.next+2))
}

// What reads remember of a segment is not believed of the one in its place.
func TestSwapIsNotReadByOldPlaces(t *testing.T) {
	c := newCompactable(t, 0)
	chunk, err := c.log.Read(0, c.next, 1)
	require.NoError(t, err)
	require.Equal(t, int64(1), chunk.Next) // and it is remembered where that is
	require.NoError(t, c.compact(1, func(offset int64) bool { return offset > 0 }, func(int64, int64) {}))
	chunk, err = c.log.Read(1, c.next, 1)
	require.NoError(t, err)
	require.Equal(t, int64(2), chunk.Next)
}

// An index of before a swap, which a crash may leave or bring back, is written
// anew.
func TestIndexOfAnotherGeneration(t *testing.T) {
	c := newCompactable(t, 0)
	names := c.filesOf(".index")
	require.NotEmpty(t, names)
	old := map[string][]byte{}
	for _, name := range names {
		f, err := c.disk.OpenRead(dir + "/" + name)
		require.NoError(t, err)
		size, err := f.Size()
		require.NoError(t, err)
		old[name] = make([]byte, size)
		_, err = f.ReadAt(old[name], 0)
		require.NoError(t, err)
	}
	odd := func(offset int64) bool { return offset%2 == 1 }
	require.NoError(t, c.compact(2, odd, func(int64, int64) {}))
	for name, b := range old {
		f, err := c.disk.Create(dir + "/" + name)
		require.NoError(t, err)
		_, err = f.WriteAt(b, 0)
		require.NoError(t, err)
	}
	c.reopenAs(c.disk.Kill())
	c.verify(some(c.next, odd, c.sealed()))
}

// swap rewrites some sealed segments as one with the same batches, which only
// raises the first index.
func (w *world) swap() {
	stats := w.log.Stats().Segments
	p := w.somePoint()
	applied := 0
	for applied+1 < len(stats) && stats[applied+1].FirstIndex <= p.Applied+1 {
		applied++
	}
	if applied == 0 {
		return
	}
	from := w.rng.IntN(applied)
	group := stats[from : from+1+w.rng.IntN(applied-from)]
	w.logf("swap offsets %d to %d, applied %d", group[0].Base, group[len(group)-1].Next, p.Applied)
	if w.try(w.rewriteAndSwap(group, p), nil, &p, true) {
		w.model.point, w.weak = p, nil
		w.dropped()
	}
}

func (w *world) rewriteAndSwap(group []raftlog.SegmentStat, p raftlog.Point) error {
	r, err := w.log.Rewrite(group)
	if err != nil {
		return err
	}
	r.Change()
	for _, s := range group {
		if err := w.log.Scan(s.Base, s.Generation, r.Append); err != nil {
			return err
		}
	}
	if err := r.Finish(0, 0); err != nil {
		return err
	}
	return w.log.Swap(r, p)
}
