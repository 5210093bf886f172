package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/cold"
	"github.com/sluiceio/sluice/services/storage/internal/cold/coldtest"
	"github.com/sluiceio/sluice/services/storage/internal/retain"
	"github.com/sluiceio/sluice/services/storage/internal/tier"
)

// coldOptions are options of a node with cold storage, of which nothing stays on
// disk that is in it.
func coldOptions(fsys vfs.FS, store *coldtest.Store) Options {
	o := options(fsys)
	o.Defaults.SegmentBytes = 1200
	o.Defaults.Local = retain.Limits{Ms: 0, Bytes: 0}
	o.Cold = Cold{
		Store: store, Uploads: 2, Reads: 4, ReadTimeout: time.Minute,
		CacheBytes: 1 << 20, BlockBytes: 1 << 10, ReadAhead: 2, SweepInterval: time.Hour,
	}
	return o
}

// coldTopic is a topic of one partition on a node with cold storage.
type coldTopic struct {
	*running
	t     *testing.T
	id    uuid.UUID
	store *coldtest.Store
	clock *clock
}

func newColdTopic(t *testing.T, config map[string]string) *coldTopic {
	t.Helper()
	c := &coldTopic{t: t, id: uuid.New(), store: coldtest.New(), clock: newClock()}
	c.start(memfs.New())
	require.NoError(t, c.Place([]*persistv1.CatalogTopic{placement(c.id, 1, config, 1)}))
	return c
}

func (c *coldTopic) start(fsys vfs.FS) {
	o := coldOptions(fsys, c.store)
	o.Now = c.clock.now
	c.running = start(c.t, o)
}

func (c *coldTopic) restart() {
	c.t.Helper()
	require.NoError(c.t, c.stop())
	c.start(c.options.FS)
}

func (c *coldTopic) p() *Partition { return c.partition(c.id, 0) }

// write appends n batches of one record each, with a time in between; a segment
// has two of them.
func (c *coldTopic) write(n int) {
	c.t.Helper()
	for range n {
		offset := c.describe().View.HighWatermark
		b := recordbatch.NewBuilder(recordbatch.Options{})
		b.Append(c.clock.now().UnixMilli(), nil, fmt.Appendf(nil, "%d-%s", offset, strings.Repeat("x", 400)), nil)
		batch, err := b.Finish()
		require.NoError(c.t, err)
		_, err = appendTo(c.p(), batch)
		require.NoError(c.t, err)
		c.clock.advance(time.Hour)
	}
}

func (c *coldTopic) describe() Description {
	c.t.Helper()
	d, err := c.p().Describe(c.t.Context())
	require.NoError(c.t, err)
	return d
}

func (c *coldTopic) state() *tier.State { return c.describe().View.State.Cold }

// tierUp runs a pass that must find nothing wrong.
func (c *coldTopic) tierUp() {
	c.t.Helper()
	mustPass(c.t, c.running, Tiering)
}

// requireWhole reads everything from the start offset on.
func (c *coldTopic) requireWhole() {
	c.t.Helper()
	d := c.describe()
	got := values(c.t, c.p())
	require.Len(c.t, got, int(d.View.HighWatermark-d.View.State.StartOffset))
	for i, value := range got {
		prefix, _, _ := strings.Cut(value, "-")
		require.Equal(c.t, fmt.Sprint(int(d.View.State.StartOffset)+i), prefix)
	}
}

// requireTidy: the store has the objects of the segments, and nothing else.
func (c *coldTopic) requireTidy() {
	c.t.Helper()
	var want []string
	for _, s := range c.state().Segments() {
		want = append(want, s.Object.Name(c.p().coldPrefix(c.state())))
	}
	require.ElementsMatch(c.t, want, c.store.Names())
	require.Empty(c.t, c.state().Intents())
	require.Empty(c.t, c.state().Garbage())
}

func (c *coldTopic) list(timestamp int64) Listed {
	c.t.Helper()
	listed, err := c.p().ListOffsets(c.t.Context(), timestamp, NoEpoch)
	require.NoError(c.t, err)
	return listed
}

// Sealed segments go to cold storage and leave the disk, and whoever reads does not
// notice; not after a restart either.
func TestTiering(t *testing.T) {
	c := newColdTopic(t, map[string]string{"retention.ms": "-1"})
	c.write(7)
	require.Equal(t, int64(0), c.list(EarliestLocal).Offset)
	require.Equal(t, Listed{Offset: -1, Timestamp: -1, Epoch: -1}, c.list(LatestTiered))
	require.Equal(t, int64(0), c.list(EarliestPendingUpload).Offset)
	before := c.list(c.clock.now().Add(-6 * time.Hour).UnixMilli())

	c.tierUp()
	d := c.describe()
	require.Len(t, c.state().Segments(), 3)
	require.Equal(t, 1, d.Segments, "the active one is left")
	require.Equal(t, int64(6), d.LocalStart)
	require.Equal(t, int64(0), d.View.State.StartOffset)
	require.Equal(t, int64(3), d.Upkeep.LocalSegmentsDropped)
	require.Equal(t, int64(0), d.Upkeep.SegmentsDeleted)
	c.requireWhole()
	c.requireTidy()
	for name, want := range map[int64]int64{Latest: 7, Earliest: 0, EarliestLocal: 6, LatestTiered: 5, EarliestPendingUpload: 6} {
		listed := c.list(name)
		require.Equal(t, want, listed.Offset, name)
		require.Equal(t, int32(2), listed.Epoch)
	}
	require.Equal(t, int64(1), before.Offset)
	require.Equal(t, before, c.list(before.Timestamp), "by time")
	require.Equal(t, int64(6), c.list(MaxTimestamp).Offset)
	end, err := c.p().EpochEnd(t.Context(), 2, NoEpoch)
	require.NoError(t, err)
	require.Equal(t, EpochEnd{Epoch: 2, End: 7}, end)

	puts := c.store.Count(coldtest.Put)
	c.tierUp()
	require.Equal(t, puts, c.store.Count(coldtest.Put), "nothing is uploaded twice")
	c.restart()
	c.requireWhole()
	c.write(4)
	c.tierUp()
	require.Equal(t, puts+2, c.store.Count(coldtest.Put))
	c.requireWhole()
	c.requireTidy()
	epochs := c.state().Epochs()
	require.Len(t, epochs, 2, "a restart begins an epoch")
	end, err = c.p().EpochEnd(t.Context(), 2, NoEpoch)
	require.NoError(t, err)
	require.Equal(t, EpochEnd{Epoch: 2, End: epochs[1].Start}, end)
	require.Equal(t, int64(7), epochs[1].Start)
}

// Where an epoch ended, whether a reader's log has diverged, and what was written
// when is answered the same when it is in cold storage alone.
func TestEpochsAndTimesInColdStorage(t *testing.T) {
	c := newColdTopic(t, map[string]string{"retention.ms": "-1", "local.retention.ms": "-1", "local.retention.bytes": "-1"})
	for range 5 {
		c.write(3) // so that epochs begin within segments and at their starts
		c.restart()
	}
	c.write(1)
	type answers struct {
		ends      []EpochEnd
		diverging []*EpochEnd
		times     []Listed
	}
	ask := func() (a answers) {
		for epoch := range int32(12) {
			end, err := c.p().EpochEnd(t.Context(), epoch, NoEpoch)
			require.NoError(t, err)
			a.ends = append(a.ends, end)
			for offset := int64(0); offset < 16; offset += 5 {
				got, err := c.p().Fetch(t.Context(), Fetch{Offset: offset, MaxBytes: 1, Epoch: NoEpoch, LastEpoch: epoch})
				if err != nil {
					require.ErrorIs(t, err, ErrOffsetOutOfRange)
				}
				a.diverging = append(a.diverging, got.Diverging)
			}
		}
		for ts := c.clock.now().Add(-18 * time.Hour); ts.Before(c.clock.now()); ts = ts.Add(30 * time.Minute) {
			a.times = append(a.times, c.list(ts.UnixMilli()))
		}
		a.times = append(a.times, c.list(MaxTimestamp), c.list(Earliest))
		return a
	}
	before := ask()
	require.NoError(t, c.Place([]*persistv1.CatalogTopic{placement(c.id, 1, map[string]string{
		"retention.ms": "-1", "local.retention.ms": "0", "local.retention.bytes": "0",
	}, 2)}))
	c.tierUp()
	require.Equal(t, 1, c.describe().Segments)
	require.Equal(t, before, ask())
	c.restart()
	require.Equal(t, before, ask())
}

// Of several records with the largest timestamp the first counts, wherever they are.
func TestTheLargestTimestampIsInColdStorage(t *testing.T) {
	c := newColdTopic(t, nil)
	c.write(3)
	ahead := c.clock.now().Add(time.Hour * 1000)
	for range 2 {
		_, err := appendTo(c.p(), datedBatch(t, ahead))
		require.NoError(t, err)
		c.write(3)
	}
	before := c.list(MaxTimestamp)
	require.Equal(t, []int64{3, ahead.UnixMilli()}, []int64{before.Offset, before.Timestamp})
	c.tierUp()
	require.Greater(t, c.describe().LocalStart, int64(7))
	require.Equal(t, before, c.list(MaxTimestamp))
	_, err := appendTo(c.p(), datedBatch(t, ahead.Add(1)))
	require.NoError(t, err)
	require.Equal(t, before, c.list(MaxTimestamp))
	_, err = appendTo(c.p(), datedBatch(t, ahead.Add(time.Hour)))
	require.NoError(t, err)
	require.Equal(t, c.describe().View.HighWatermark-1, c.list(MaxTimestamp).Offset)
}

// What the topic says decides on what goes, and how long it stays on disk.
func TestTieringByConfig(t *testing.T) {
	hour := time.Hour.Milliseconds()
	for name, test := range map[string]struct {
		config          map[string]string
		segments, local int
	}{
		// Segments hold hours 0 and 1, 2 and 3, and the active one 4; it is 5 now.
		"by default":                {nil, 2, 1},
		"delete":                    {map[string]string{"cleanup.policy": "delete"}, 2, 1},
		"not enabled":               {map[string]string{"remote.storage.enable": "false"}, 0, 3},
		"copies nothing":            {map[string]string{"remote.log.copy.disable": "true"}, 0, 3},
		"compacted":                 {map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": num(1000 * hour)}, 0, 3},
		"compacted and deleted":     {map[string]string{"cleanup.policy": "compact,delete", "min.compaction.lag.ms": num(1000 * hour)}, 0, 3},
		"local by time":             {map[string]string{"local.retention.ms": num(3*hour - 1), "local.retention.bytes": "-1"}, 2, 2},
		"local by size":             {map[string]string{"local.retention.ms": "-1", "local.retention.bytes": "1400"}, 2, 2},
		"local without limit":       {map[string]string{"local.retention.ms": "-1", "local.retention.bytes": "-1"}, 2, 3},
		"as the retention, by time": {map[string]string{"local.retention.ms": "-2", "retention.ms": num(100 * hour), "local.retention.bytes": "-1"}, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newColdTopic(t, test.config)
			c.write(5)
			c.tierUp()
			require.Len(t, c.state().Segments(), test.segments)
			require.Equal(t, test.local, c.describe().Segments)
			c.requireWhole()
			c.requireTidy()
		})
	}
}

// Retention counts each offset once, wherever it is: what is on disk and in cold
// storage is not counted twice, and what was dropped from the disk is counted.
func TestRetentionOverColdStorage(t *testing.T) {
	for name, test := range map[string]struct {
		config map[string]string
		start  int64
	}{
		// 10 batches of about 480 bytes, two to a segment.
		"by size, all on disk as well": {map[string]string{"local.retention.ms": "-1", "local.retention.bytes": "-1", "retention.bytes": "3200"}, 2},
		"by size, in cold storage":     {map[string]string{"retention.bytes": "3200"}, 2},
		"by time, in cold storage":     {map[string]string{"retention.ms": num(6*time.Hour.Milliseconds() - 1)}, 4},
		"by time, all":                 {map[string]string{"retention.ms": "1"}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			c := newColdTopic(t, test.config)
			c.write(9)
			c.tierUp()
			before := c.describe()
			require.Len(t, c.state().Segments(), 4)
			mustPass(t, c.running, Retention)
			require.Equal(t, test.start, c.describe().View.State.StartOffset, "%d bytes on disk", before.Bytes)
			c.requireWhole()
			c.requireTidy()
			require.Len(t, c.state().Segments(), 4-int(test.start/2))
			require.Equal(t, test.start/2, c.describe().Upkeep.SegmentsDeleted, "wherever it was, it counts once")
		})
	}
}

// DeleteRecords removes from cold storage what it passes, and keeps what it is
// within.
func TestAdvanceStartPastColdSegments(t *testing.T) {
	c := newColdTopic(t, nil)
	c.write(9)
	c.tierUp()
	start, err := c.p().AdvanceStart(t.Context(), 5)
	require.NoError(t, err)
	require.Equal(t, int64(5), start)
	require.Len(t, c.state().Garbage(), 2)
	_, err = c.p().Fetch(t.Context(), Fetch{Offset: 4, MaxBytes: 1, Epoch: NoEpoch, LastEpoch: NoEpoch})
	require.ErrorIs(t, err, ErrOffsetOutOfRange)
	c.requireWhole()
	c.tierUp()
	c.requireTidy()
	require.Len(t, c.state().Segments(), 2)
	c.requireWhole()
	start, err = c.p().AdvanceStart(t.Context(), HighWatermarkOffset)
	require.NoError(t, err)
	require.Equal(t, int64(9), start)
	c.tierUp()
	require.Empty(t, c.store.Names())
	c.requireTidy()
	c.write(4)
	c.tierUp()
	c.requireWhole()
	c.requireTidy()
}

// A store that refuses, dies half way or loses its answers delays uploads and
// deletions, and no more: nothing is there twice, nothing is left, nothing is lost.
func TestAStoreThatFails(t *testing.T) {
	lost, refused := coldtest.Fault{Err: coldtest.ErrFault, Done: true}, coldtest.Fault{Err: coldtest.ErrFault}
	for name, fault := range map[string]struct {
		op    coldtest.Op
		fault coldtest.Fault
	}{
		"put refused": {coldtest.Put, refused}, "put, answer lost": {coldtest.Put, lost},
		"delete refused": {coldtest.Delete, refused}, "delete, answer lost": {coldtest.Delete, lost},
		"list refused": {coldtest.List, refused},
	} {
		t.Run(name, func(t *testing.T) {
			c := newColdTopic(t, map[string]string{"retention.ms": num(5 * time.Hour.Milliseconds())})
			for range 4 {
				c.write(4)
				once := true
				c.store.Hook(func(_ context.Context, op coldtest.Op, _ string) coldtest.Fault {
					if op == fault.op && once {
						once = false
						return fault.fault
					}
					return coldtest.Fault{}
				})
				for _, pass := range []Pass{Tiering, Retention, Tiering} {
					failures, err := c.RunPass(t.Context(), pass, true)
					require.NoError(t, err)
					for _, f := range failures {
						require.ErrorIs(t, f.Err, coldtest.ErrFault)
						require.ErrorIs(t, f.Err, cold.ErrUnavailable)
					}
					c.requireWhole()
				}
			}
			c.store.Hook(nil)
			c.clock.advance(2 * time.Hour)
			c.tierUp()
			c.tierUp()
			c.requireWhole()
			c.requireTidy()
			require.NotEmpty(t, c.state().Segments())
		})
	}
}

// While the store is away what is on disk is served, and what is not is answered
// with an error that can be retried; nothing is damaged and nothing stops.
func TestReadsWhileTheStoreIsAway(t *testing.T) {
	c := newColdTopic(t, nil)
	c.write(5)
	c.tierUp()
	c.restart() // nothing is in memory
	c.store.Hook(func(context.Context, coldtest.Op, string) coldtest.Fault {
		return coldtest.Fault{Err: coldtest.ErrFault}
	})
	_, err := c.p().Fetch(t.Context(), Fetch{Offset: 0, MaxBytes: 1, Epoch: NoEpoch, LastEpoch: NoEpoch})
	require.ErrorIs(t, err, cold.ErrUnavailable)
	_, err = c.p().ListOffsets(t.Context(), 1, NoEpoch)
	require.ErrorIs(t, err, cold.ErrUnavailable)
	got, err := c.p().Fetch(t.Context(), Fetch{Offset: 4, MaxBytes: 1, Epoch: NoEpoch, LastEpoch: NoEpoch})
	require.NoError(t, err)
	require.NotEmpty(t, got.Batches)
	c.write(4)
	failures, err := c.RunPass(t.Context(), Tiering, true)
	require.NoError(t, err)
	require.Len(t, failures, 1)
	require.Equal(t, int64(4), c.describe().LocalStart, "what was not uploaded stays")
	totals := c.ColdTotals()
	require.Equal(t, []int64{2, 2}, []int64{totals.Segments, totals.PendingSegments})
	require.Positive(t, totals.Lag)
	c.store.Hook(nil)
	c.requireWhole()
	c.tierUp()
	c.tierUp()
	c.requireWhole()
	c.requireTidy()
	require.Zero(t, c.ColdTotals().PendingSegments)
}

// A pass that finds the store away asks it a few times, not once for each of the
// node's partitions, and the next one asks anew.
func TestAPassGivesUpOnAStoreThatIsAway(t *testing.T) {
	c := newColdTopic(t, nil)
	many := uuid.New()
	require.NoError(t, c.Place([]*persistv1.CatalogTopic{placement(many, 20, nil, 1)}))
	for i := range 20 {
		for range 3 {
			_, err := appendTo(c.partition(many, int32(i)), batchOf(t, strings.Repeat("x", 900)))
			require.NoError(t, err)
		}
	}
	c.store.Hook(func(context.Context, coldtest.Op, string) coldtest.Fault {
		return coldtest.Fault{Err: coldtest.ErrFault}
	})
	for pass := 1; pass <= 2; pass++ {
		failures, err := c.RunPass(t.Context(), Tiering, false)
		require.NoError(t, err)
		require.Len(t, failures, 20)
		requests := c.store.Count(coldtest.Put) + c.store.Count(coldtest.Delete)
		require.LessOrEqual(t, requests, pass*(mostFailures+c.options.Cold.Uploads))
		require.GreaterOrEqual(t, requests, pass*mostFailures)
	}
	c.store.Hook(nil)
	c.tierUp()
	c.tierUp()
	require.Len(t, c.store.Names(), 40)
}

// A cold copy with wrong bytes is never served; it says what it is, and the replica
// goes on.
func TestADamagedObject(t *testing.T) {
	c := newColdTopic(t, nil)
	c.write(5)
	c.tierUp()
	name := c.state().Segments()[0].Object.Name(c.p().coldPrefix(c.state()))
	c.store.Object(name)[100] ^= 1
	_, err := c.p().Fetch(t.Context(), Fetch{Offset: 0, MaxBytes: 1 << 20, Epoch: NoEpoch, LastEpoch: NoEpoch})
	require.ErrorIs(t, err, cold.ErrDamaged)
	require.NotErrorIs(t, err, ErrDamaged)
	got, err := c.p().Fetch(t.Context(), Fetch{Offset: 2, MaxBytes: 1 << 20, Epoch: NoEpoch, LastEpoch: NoEpoch})
	require.NoError(t, err)
	require.NotEmpty(t, got.Batches)
	c.store.Object(name)[100] ^= 1
	c.requireWhole()
}

// A node that is started without cold storage serves what it has.
func TestWithoutTheStoreItHad(t *testing.T) {
	c := newColdTopic(t, nil)
	c.write(5)
	c.tierUp()
	require.NoError(t, c.stop())
	o := coldOptions(c.options.FS, nil)
	o.Cold = Cold{}
	r := start(t, o)
	p := r.partition(c.id, 0)
	_, err := p.Fetch(t.Context(), Fetch{Offset: 0, MaxBytes: 1, Epoch: NoEpoch, LastEpoch: NoEpoch})
	require.ErrorIs(t, err, ErrNoColdStorage)
	_, err = p.ListOffsets(t.Context(), 1, NoEpoch)
	require.ErrorIs(t, err, ErrNoColdStorage)
	got, err := p.Fetch(t.Context(), Fetch{Offset: 4, MaxBytes: 1, Epoch: NoEpoch, LastEpoch: NoEpoch})
	require.NoError(t, err)
	require.NotEmpty(t, got.Batches)
	mustPass(t, r, Tiering)
	mustPass(t, r, Retention)

	// What it removes is deleted from the store once that is back.
	never := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(never, 1, nil, 1)}))
	_, err = appendTo(r.partition(never, 0), batchOf(t, "never in cold storage"))
	require.NoError(t, err)
	require.NoError(t, r.Remove([]uuid.UUID{c.id, never}, 1))
	require.Equal(t, []uuid.UUID{c.id}, r.catalog.ColdTopics())
	require.NoError(t, r.stop())
	require.NotEmpty(t, c.store.Names())
	c.start(c.options.FS)
	c.tierUp()
	require.Empty(t, c.store.Names())
}

// An object that nobody names, of a try that nobody knows of any more, goes with
// the next listing; one of a leader to come, or of somebody else, stays.
func TestSweep(t *testing.T) {
	c := newColdTopic(t, nil)
	c.write(5)
	c.tierUp()
	prefix := c.p().coldPrefix(c.state())
	late := tier.Object{Base: 0, Term: 1, Nonce: 7}.Name(prefix)
	later := tier.Object{Base: 0, Term: 1 << 20, Nonce: 7}.Name(prefix)
	foreign := prefix + "README"
	for _, name := range []string{late, later, foreign} {
		c.store.Set(name, []byte("x"))
	}
	c.tierUp()
	c.clock.advance(2 * time.Hour)
	c.tierUp()
	require.NotContains(t, c.store.Names(), late)
	require.Contains(t, c.store.Names(), later)
	require.Contains(t, c.store.Names(), foreign)
	c.requireWhole()
	lists := c.store.Count(coldtest.List)
	c.tierUp()
	require.Equal(t, lists, c.store.Count(coldtest.List), "not again within the interval")
}

// A partition whose disk was lost begins anew. What its predecessor has in cold
// storage is all that is left of that: it is not taken for garbage, however the terms
// grow, and goes with the topic alone.
func TestADiskThatWasLost(t *testing.T) {
	c := newColdTopic(t, nil)
	c.write(9)
	c.tierUp()
	left := c.store.Names()
	require.Len(t, left, 4)
	require.NoError(t, c.stop())
	c.start(memfs.New())
	require.NoError(t, c.Place([]*persistv1.CatalogTopic{placement(c.id, 1, nil, 1)}))
	for range 5 {
		c.write(3)
		c.tierUp()
		c.clock.advance(2 * c.options.Cold.SweepInterval)
		c.tierUp()
		c.restart()
	}
	require.Subset(t, c.store.Names(), left)
	require.Len(t, c.store.Names(), len(left)+len(c.state().Segments()))
	c.requireWhole()
	require.NoError(t, c.Remove([]uuid.UUID{c.id}, 1))
	c.tierUp()
	require.Empty(t, c.store.Names())
}

// A removed topic's objects go with it; when the store is away they go later, after
// a restart as well; and those of a topic that is uploaded just then, too.
func TestRemovedTopics(t *testing.T) {
	for _, away := range []bool{false, true} {
		t.Run(fmt.Sprintf("away=%v", away), func(t *testing.T) {
			c := newColdTopic(t, nil)
			c.write(5)
			c.tierUp()
			other := tier.Object{Base: 0, Term: 1, Nonce: 1}.Name(tier.Prefix(uuid.New(), 0, 1))
			c.store.Set(other, []byte("another topic's"))
			if away {
				c.store.Hook(func(context.Context, coldtest.Op, string) coldtest.Fault {
					return coldtest.Fault{Err: coldtest.ErrFault}
				})
			}
			require.NoError(t, c.Remove([]uuid.UUID{c.id}, 1))
			c.tierUp()
			if away {
				require.Len(t, c.store.Names(), 3)
				c.restart()
				c.store.Hook(nil)
				c.tierUp()
			}
			require.Equal(t, []string{other}, c.store.Names())
			// What came in late goes as well.
			c.store.Set(tier.Object{Base: 9, Term: 9}.Name(tier.Prefix(c.id, 0, 1)), []byte("late"))
			c.tierUp()
			require.Equal(t, []string{other}, c.store.Names())
			c.tierUp()
			require.Empty(t, c.catalog.ColdTopics())
			lists := c.store.Count(coldtest.List)
			c.tierUp()
			require.Equal(t, lists, c.store.Count(coldtest.List))
		})
	}
}

// The owner of a partition waits for no store: while an upload hangs, appends and
// reads go on; removal and stop end it.
func TestAnUploadThatHangs(t *testing.T) {
	for _, how := range []string{"stop", "remove"} {
		t.Run(how, func(t *testing.T) {
			c := newColdTopic(t, nil)
			c.write(5)
			hangs := make(chan struct{}, 1)
			c.store.Hook(func(ctx context.Context, op coldtest.Op, _ string) coldtest.Fault {
				if op == coldtest.Put {
					hangs <- struct{}{}
					<-ctx.Done()
				}
				return coldtest.Fault{}
			})
			passed := make(chan error, 1)
			go func() {
				_, err := c.RunPass(context.Background(), Tiering, false)
				passed <- err
			}()
			<-hangs
			c.write(4)
			c.requireWhole()
			intents := c.state().Intents()
			require.Len(t, intents, 1)
			require.True(t, c.p().tiering.isUploading(intents[0].Object))
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := c.RunPass(ctx, Retention, true)
			require.ErrorIs(t, err, context.DeadlineExceeded, "who asks waits no longer than he wants to")
			if how == "stop" {
				require.NoError(t, c.stop())
				require.ErrorIs(t, <-passed, ErrStopping)
				c.start(c.options.FS)
				c.store.Hook(nil)
				c.tierUp()
				c.tierUp()
				c.requireWhole()
				c.requireTidy()
				return
			}
			require.NoError(t, c.Remove([]uuid.UUID{c.id}, 1))
			require.NoError(t, <-passed)
			c.store.Hook(nil)
			c.tierUp()
			require.Empty(t, c.store.Names())
		})
	}
}

// A segment that cannot be read is damage, as for any reader, and names no object.
func TestUploadOfADamagedSegment(t *testing.T) {
	c := newColdTopic(t, nil)
	c.write(5)
	file := c.options.Dir + "/" + topicsFolder + "/" + c.id.String() + "/0/" + fmt.Sprintf("%020d.log", 0)
	f, err := c.options.FS.Open(file)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("spoilt"), 90)
	require.NoError(t, errors.Join(err, f.Close()))
	failures, err := c.RunPass(t.Context(), Tiering, true)
	require.NoError(t, err)
	require.Len(t, failures, 1)
	require.ErrorIs(t, failures[0].Err, ErrDamaged)
	require.Empty(t, c.store.Names())
	require.Eventually(t, func() bool {
		_, err := c.p().Describe(t.Context())
		return errors.Is(err, ErrDamaged)
	}, 10*time.Second, time.Millisecond)
}

// A panic in an upload ends the upload, not the process; the next pass begins anew.
func TestAPanicBesideTheOwner(t *testing.T) {
	c := newColdTopic(t, nil)
	c.write(5)
	c.store.Hook(func(context.Context, coldtest.Op, string) coldtest.Fault { panic("a bug") })
	failures, err := c.RunPass(t.Context(), Tiering, true)
	require.NoError(t, err)
	require.Len(t, failures, 1)
	require.ErrorIs(t, failures[0].Err, errPanic)
	c.write(2)
	c.store.Hook(nil)
	c.tierUp()
	c.tierUp()
	c.requireWhole()
	c.requireTidy()
}
