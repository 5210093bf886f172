package node

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/invariant"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// pair is a record with a key; without a value it is a tombstone.
type pair struct{ key, value string }

func pairBatch(t testing.TB, o recordbatch.Options, at time.Time, pairs ...pair) []byte {
	t.Helper()
	b := recordbatch.NewBuilder(o)
	for _, p := range pairs {
		var key []byte
		if p.key != "" {
			key = []byte(p.key)
		}
		b.Append(at.UnixMilli(), key, []byte(p.value), nil)
	}
	batch, err := b.Finish()
	require.NoError(t, err)
	return batch
}

// held is a record that is found.
type held struct {
	offset     int64
	key, value string
}

// records reads all records of a partition.
func records(t testing.TB, p *Partition) (all []held) {
	t.Helper()
	for offset := int64(0); ; {
		got, err := p.Fetch(t.Context(), Fetch{Offset: offset, MaxBytes: 4000, Epoch: NoEpoch, LastEpoch: NoEpoch, Clamp: true})
		require.NoError(t, err)
		if len(got.Batches) == 0 && got.Next == offset {
			require.Equal(t, got.View.HighWatermark, max(offset, got.Offset))
			return all
		}
		for rest := got.Batches; len(rest) > 0; {
			var batch []byte
			batch, rest, err = recordbatch.Next(rest)
			require.NoError(t, err)
			for r, err := range recordbatch.Records(batch, recordbatch.Limits{}) {
				require.NoError(t, err)
				if r.Offset >= got.Offset {
					all = append(all, held{r.Offset, string(r.Key), string(r.Value)})
				}
			}
		}
		offset = got.Next
	}
}

// compacted is a node with a compacted topic of which a segment holds a few
// batches.
type compacted struct {
	*running
	*clock
	o     Options
	disk  *memfs.FS
	topic uuid.UUID
}

func newCompacted(t *testing.T, partitions int, config map[string]string) *compacted {
	c := &compacted{clock: newClock(), disk: memfs.New(), topic: uuid.New()}
	c.o = options(c.disk)
	c.o.Now, c.o.Defaults.SegmentBytes, c.o.Upkeep.CompactionBytes = c.now, 1000, 1<<20
	c.running = start(t, c.o)
	c.place(partitions, 1, config)
	return c
}

func (c *compacted) place(partitions int, version int64, config map[string]string) {
	set := map[string]string{"cleanup.policy": "compact"}
	for name, value := range config {
		set[name] = value
	}
	require.NoError(c.t, c.Place([]*persistv1.CatalogTopic{placement(c.topic, partitions, set, version)}))
}

// write appends batches of one record with so many keys in turn.
func (c *compacted) write(p *Partition, keys, n int, value string) {
	c.t.Helper()
	for i := range n {
		_, err := appendTo(p, pairBatch(c.t, recordbatch.Options{}, c.now(), pair{fmt.Sprint("k", i%keys), value + fmt.Sprint(i)}))
		require.NoError(c.t, err)
	}
}

func (c *compacted) counts(p *Partition) UpkeepCounts {
	c.t.Helper()
	d, err := p.Describe(c.t.Context())
	require.NoError(c.t, err)
	return d.Upkeep
}

func activeBase(t testing.TB, p *Partition) int64 {
	t.Helper()
	_, log, err := p.view(t.Context())
	require.NoError(t, err)
	return log.ActiveBase()
}

func TestCompaction(t *testing.T) {
	c := newCompacted(t, 2, nil)
	p := c.partition(c.topic, 0)
	c.write(p, 5, 200, "v")
	before := records(t, p)
	require.Len(t, before, 200)
	active := activeBase(t, p)
	require.Less(t, active, int64(200))
	mustPass(t, c.running, Compaction)

	check := func(p *Partition) {
		got := records(t, p)
		require.Equal(t, before[active:], got[len(got)-int(200-active):], "the active segment is untouched")
		sealed := got[:len(got)-int(200-active)]
		require.Equal(t, before[active-5:active], sealed, "the newest of each key, where they were")
	}
	check(p)
	require.Equal(t, UpkeepCounts{Runs: 1, RecordsDropped: active - 5}, c.counts(p))
	require.Equal(t, UpkeepCounts{}, c.counts(c.partition(c.topic, 1)))

	mustPass(t, c.running, Compaction)
	require.Equal(t, int64(1), c.counts(p).Runs, "nothing is due any more")
	listed, err := p.ListOffsets(t.Context(), MaxTimestamp, NoEpoch)
	require.NoError(t, err)
	require.GreaterOrEqual(t, listed.Offset, active-5)

	require.NoError(t, c.stop())
	c.running = start(t, c.o)
	p = c.partition(c.topic, 0)
	check(p)
	c.write(p, 5, 100, "w")
	mustPass(t, c.running, Compaction)
	_, err = p.AdvanceStart(t.Context(), 150)
	require.NoError(t, err)
	for _, r := range records(t, p)[:5] {
		require.True(t, strings.HasPrefix(r.value, "w"), "%+v", r)
	}
}

func TestOtherTopicsAreNotCompacted(t *testing.T) {
	c := newCompacted(t, 1, map[string]string{"cleanup.policy": "delete"})
	p := c.partition(c.topic, 0)
	c.write(p, 1, 100, "v")
	mustPass(t, c.running, Compaction)
	require.Len(t, records(t, p), 100)

	// From the next pass on it is, and what has no key goes, as in Kafka.
	_, err := appendTo(p, pairBatch(t, recordbatch.Options{}, c.now(), pair{"", "nobody's"}))
	require.NoError(t, err)
	c.place(1, 2, nil)
	c.write(p, 1, 40, "w")
	mustPass(t, c.running, Compaction)
	got := records(t, p)
	require.Len(t, got, int(141-activeBase(t, p))+1)
	for _, r := range got {
		require.Equal(t, "k0", r.key)
	}
	// And back.
	c.place(1, 3, map[string]string{"cleanup.policy": "delete", "retention.ms": "0"})
	c.advance(time.Hour)
	mustPass(t, c.running, Retention)
	require.Len(t, records(t, p), int(141-activeBase(t, p)))
}

func TestBothPolicies(t *testing.T) {
	c := newCompacted(t, 1, map[string]string{"cleanup.policy": "compact,delete", "retention.ms": num(time.Hour.Milliseconds())})
	p := c.partition(c.topic, 0)
	c.write(p, 3, 60, "old")
	c.advance(2 * time.Hour)
	c.write(p, 3, 60, "new")
	mustPass(t, c.running, Compaction)
	mustPass(t, c.running, Retention)
	for _, r := range records(t, p) {
		require.True(t, strings.HasPrefix(r.value, "new") || r.offset >= 50, "%+v", r)
	}
	require.Positive(t, startOffset(t, p))
}

func TestTombstonesAreKeptForTheirTime(t *testing.T) {
	c := newCompacted(t, 1, map[string]string{"delete.retention.ms": num(time.Hour.Milliseconds())})
	p := c.partition(c.topic, 0)
	c.write(p, 3, 30, "v")
	_, err := appendTo(p, pairBatch(t, recordbatch.Options{Codec: recordbatch.Zstd}, c.now(), pair{"k0", ""}, pair{"k1", "x"}))
	require.NoError(t, err)
	for range 40 {
		_, err := appendTo(p, pairBatch(t, recordbatch.Options{}, c.now(), pair{"filler", "x"}))
		require.NoError(t, err)
	}
	find := func() (values []string) {
		for _, r := range records(t, p) {
			if r.key == "k0" {
				values = append(values, r.value)
			}
		}
		return values
	}
	mustPass(t, c.running, Compaction)
	require.Equal(t, []string{""}, find(), "who reads slowly hears of it")
	c.advance(59 * time.Minute)
	mustPass(t, c.running, Compaction)
	require.Equal(t, []string{""}, find())
	require.Equal(t, int64(1), c.counts(p).Runs)
	c.advance(2 * time.Minute)
	// By itself too, with nothing new in the log.
	_, err = c.RunPass(t.Context(), Compaction, false)
	require.NoError(t, err)
	require.Empty(t, find())
	require.Equal(t, int64(2), c.counts(p).Runs)
	mustPass(t, c.running, Compaction)
	require.Equal(t, int64(2), c.counts(p).Runs)
}

func TestWhenCompactionIsDue(t *testing.T) {
	run := func(t *testing.T, c *compacted, p *Partition, asked bool) int64 {
		t.Helper()
		_, err := c.RunPass(t.Context(), Compaction, asked)
		require.NoError(t, err)
		return c.counts(p).Runs
	}
	t.Run("min.compaction.lag.ms", func(t *testing.T) {
		c := newCompacted(t, 1, map[string]string{"min.compaction.lag.ms": num(time.Hour.Milliseconds())})
		p := c.partition(c.topic, 0)
		c.write(p, 2, 100, "v")
		require.Zero(t, run(t, c, p, true), "not even when asked for")
		c.advance(time.Hour)
		require.Equal(t, int64(1), run(t, c, p, false))
	})
	t.Run("min.cleanable.dirty.ratio", func(t *testing.T) {
		c := newCompacted(t, 1, map[string]string{"min.cleanable.dirty.ratio": "0.9"})
		p := c.partition(c.topic, 0)
		c.write(p, 1000, 200, "v")
		require.Equal(t, int64(1), run(t, c, p, false))
		c.write(p, 1000, 60, "w")
		require.Equal(t, int64(1), run(t, c, p, false), "little is new")
		require.Equal(t, int64(2), run(t, c, p, true), "somebody asks")
	})
	t.Run("max.compaction.lag.ms", func(t *testing.T) {
		c := newCompacted(t, 1, map[string]string{"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": num(time.Hour.Milliseconds())})
		p := c.partition(c.topic, 0)
		c.write(p, 2, 100, "v")
		require.Zero(t, run(t, c, p, false))
		c.advance(2 * time.Hour)
		require.Equal(t, int64(1), run(t, c, p, false))
		// What is written to seldom is sealed in time, too.
		base := activeBase(t, p)
		c.write(p, 2, 1, "v")
		require.Less(t, base, activeBase(t, p))
	})
}

func TestCompactionWithLittleMemory(t *testing.T) {
	c := newCompacted(t, 1, nil)
	c.Node.options.Upkeep.CompactionBytes = 0 // some 60 keys
	p := c.partition(c.topic, 0)
	c.write(p, 400, 1200, "v")
	mustPass(t, c.running, Compaction)
	require.Greater(t, c.counts(p).Runs, int64(5))
	active := activeBase(t, p)
	got := records(t, p)
	require.Len(t, got, int(1200-active)+400)
	require.Equal(t, active-400, got[0].offset)
}

// Damage is found, reported and left alone; the pass goes on with the others.
func TestCompactionMeetsDamage(t *testing.T) {
	c := newCompacted(t, 4, nil)
	for i := range int32(4) {
		c.write(c.partition(c.topic, i), 3, 100, "v")
	}
	bad := c.partition(c.topic, 2)
	flip(t, c.disk, filepath.Join(c.folder(bad.key), "00000000000000000000.log"), 70, 1)
	failures, err := c.RunPass(t.Context(), Compaction, true)
	require.NoError(t, err)
	require.Len(t, failures, 1)
	require.Equal(t, bad.key, failures[0].Key)
	require.ErrorIs(t, failures[0].Err, ErrDamaged)
	for i := range int32(4) {
		if i != 2 {
			require.Equal(t, int64(1), c.counts(c.partition(c.topic, i)).Runs)
		}
	}
	again, err := c.RunPass(t.Context(), Compaction, true)
	require.NoError(t, err)
	require.Len(t, again, 1, "it is looked at again, and stays damaged")
}

// A node stops, and a topic goes, in the middle of a pass.
func TestEndsInTheMiddleOfACompaction(t *testing.T) {
	for _, end := range []string{"stop", "remove"} {
		for after := range int64(40) {
			c := &compacted{clock: newClock(), disk: memfs.New(), topic: uuid.New()}
			reached := make(chan struct{})
			goOn := make(chan struct{})
			var n atomic.Int64
			o := options(faultfs.New(c.disk, func(op faultfs.Op, name string) error {
				if op != faultfs.Close && strings.Contains(name, ".rewritten") && n.Add(1) == after+1 {
					close(reached)
					<-goOn
				}
				return nil
			}))
			o.Defaults.SegmentBytes, o.Upkeep.CompactionBytes = 1000, 1<<20
			c.running = start(t, o)
			c.place(1, 1, nil)
			p := c.partition(c.topic, 0)
			c.write(p, 3, 60, "v")
			passed := make(chan error, 1)
			go func() {
				_, err := c.RunPass(t.Context(), Compaction, true)
				passed <- err
			}()
			select {
			case <-reached:
			case err := <-passed:
				require.NoError(t, err)
				require.Greater(t, after, int64(5))
				close(goOn)
				require.NoError(t, c.stop())
				continue
			}
			ended := make(chan error, 1)
			go func() {
				if end == "remove" {
					ended <- c.Remove([]uuid.UUID{c.topic}, 1)
					return
				}
				ended <- c.stop()
			}()
			if end == "remove" {
				require.NoError(t, <-ended)
			}
			close(goOn)
			if end == "stop" {
				require.NoError(t, <-ended)
			}
			<-passed
			require.NoError(t, c.stop())
			if end == "remove" {
				_, err := c.disk.Stat(filepath.Join(dir, "topics", c.topic.String()))
				require.Error(t, err, "nothing is left of it")
			}
		}
	}
}

// What a partition means is the same before and after whatever compaction does,
// and wherever it dies: the newest of each key, and each record that is found is
// one that was written, where it was written.
func TestCompactionHistoriesWithCrashes(t *testing.T) {
	n := uint64(80)
	if invariant.Enabled {
		n = 25
	}
	for seed := range n {
		runCompactions(t, seed)
	}
}

func runCompactions(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	clock, topic, disk := newClock(), uuid.New(), memfs.New()
	written := map[int64]pair{}
	// acked are the offsets below it, end those that the last process left. What is
	// between may go with the power, until a process has opened the disk: finding it
	// on a copy makes nothing durable.
	acked, end := int64(0), int64(0)
	t.Logf("seed %d", seed)
	for range 4 + rng.IntN(4) {
		m := &machine{disk: disk, power: rng.IntN(2) == 0, rng: rand.New(rand.NewPCG(seed, rng.Uint64())), dieAt: 1 + rng.IntN(900)}
		o := options(faultfs.New(disk, m.hook))
		o.Now, o.Defaults.SegmentBytes, o.Upkeep.CompactionBytes = clock.now, int64(700+rng.IntN(3000)), int64(rng.IntN(2)<<20)
		node, err := Open(o)
		if err != nil {
			require.False(t, m.lived(func() {}), "seed %d: %v", seed, err)
			disk = m.die()
			end = findCompacted(t, o, disk, topic, written, acked)
			continue
		}
		r := run(t, node)
		err = r.Place([]*persistv1.CatalogTopic{placement(topic, 1, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "500"}, 1)})
		for step := 0; err == nil && step < 60 && m.lived(func() {}); step++ {
			p := r.partition(topic, 0)
			clock.advance(time.Duration(rng.IntN(300)) * time.Millisecond)
			if rng.IntN(6) == 0 {
				_, err = r.RunPass(t.Context(), Compaction, rng.IntN(3) > 0)
				continue
			}
			pairs := make([]pair, 1+rng.IntN(8))
			for i := range pairs {
				pairs[i] = pair{fmt.Sprint("key ", rng.IntN(12)), fmt.Sprint("v", rng.Uint32())}
				if rng.IntN(4) == 0 {
					pairs[i].value = ""
				}
			}
			at := clock.now().Add(time.Duration(rng.IntN(4000)-2000) * time.Millisecond)
			batch := pairBatch(t, recordbatch.Options{Codec: recordbatch.Codec(rng.IntN(5))}, at, pairs...)
			result, failed := appendTo(p, batch)
			base := end
			if failed == nil {
				base = result.BaseOffset
			}
			for i, x := range pairs {
				written[base+int64(i)] = x // what was not acknowledged may be there too
			}
			if failed == nil {
				end = result.EndOffset
				m.lived(func() { acked = result.EndOffset })
			}
			err = failed
		}
		disk = m.die()
		_ = r.stop()

		end = findCompacted(t, o, disk, topic, written, acked)
	}
}

// findCompacted compares what whoever comes next finds with what was written, and
// forgets of that what is not there.
func findCompacted(t *testing.T, o Options, disk *memfs.FS, topic uuid.UUID, written map[int64]pair, acked int64) (end int64) {
	t.Helper()
	o.FS = disk.Kill()
	r := start(t, o)
	defer func() { require.NoError(t, r.stop()) }()
	if p, err := r.Partition(replica.Key{Topic: topic}); err == nil {
		end = checkCompacted(t, p, written, acked)
	}
	require.GreaterOrEqual(t, end, acked)
	for offset := range written {
		if offset >= end {
			delete(written, offset)
		}
	}
	return end
}

// checkCompacted compares what a partition means with what was written to it.
func checkCompacted(t *testing.T, p *Partition, written map[int64]pair, acked int64) (end int64) {
	t.Helper()
	got := records(t, p)
	d, err := p.Describe(t.Context())
	require.NoError(t, err)
	end = d.View.HighWatermark
	require.GreaterOrEqual(t, end, acked)
	want, have := map[string]string{}, map[string]string{}
	for offset := range end {
		x, ok := written[offset]
		require.True(t, ok)
		want[x.key] = x.value
	}
	for i, r := range got {
		is := pair{r.key, r.value}
		require.Equal(t, written[r.offset], is, "offset %d", r.offset)
		require.True(t, i == 0 || got[i-1].offset < r.offset)
		have[r.key] = r.value
	}
	for key, value := range want {
		if value == "" {
			require.Empty(t, have[key], "a tombstone has gone before what it covers: %s", key)
			continue
		}
		require.Equal(t, value, have[key], key)
	}
	return end
}

// The log of a coordinator's shard does not grow with what is written to it, and
// a new owner that replays it finds what the old one had.
func TestShardLogStopsGrowing(t *testing.T) {
	c := newCompacted(t, 1, map[string]string{"delete.retention.ms": num(time.Minute.Milliseconds())})
	p := c.partition(c.topic, 0)
	rng := rand.New(rand.NewPCG(1, 1))
	want := map[string]int64{} // by group and partition
	name := func(key *persistv1.ShardKey) string {
		k := key.GetGroupOffset()
		return fmt.Sprint(k.GetGroup(), " ", k.GetPartition())
	}
	replay := func() map[string]int64 {
		state := map[string]int64{}
		for _, r := range records(t, p) {
			key, value := &persistv1.ShardKey{}, &persistv1.ShardValue{}
			require.NoError(t, proto.Unmarshal([]byte(r.key), key))
			require.NoError(t, proto.Unmarshal([]byte(r.value), value))
			if r.value == "" {
				delete(state, name(key))
				continue
			}
			state[name(key)] = value.GetGroupOffset().GetOffset()
		}
		return state
	}
	owner, most := int64(1), int64(0)
	for round := range 12 {
		_, err := p.Fence(t.Context(), owner)
		require.NoError(t, err)
		for i := range 150 {
			key := &persistv1.ShardKey{Kind: &persistv1.ShardKey_GroupOffset{GroupOffset: &persistv1.GroupOffsetKey{
				Group: fmt.Sprint("group ", rng.IntN(20)), TopicId: c.topic[:], Partition: int32(rng.IntN(3)),
			}}}
			value := &persistv1.ShardValue{Kind: &persistv1.ShardValue_GroupOffset{GroupOffset: &persistv1.GroupOffset{Offset: int64(150*round + i)}}}
			k, err := proto.MarshalOptions{Deterministic: true}.Marshal(key)
			require.NoError(t, err)
			v, err := proto.Marshal(value)
			require.NoError(t, err)
			want[name(key)] = value.GetGroupOffset().GetOffset()
			if rng.IntN(10) == 0 {
				v = nil
				delete(want, name(key))
			}
			a, err := p.Append(t.Context(), [][]byte{pairBatch(t, recordbatch.Options{}, c.now(), pair{string(k), string(v)})}, owner)
			require.NoError(t, err)
			_, err = a.Wait(t.Context())
			require.NoError(t, err)
		}
		c.advance(time.Hour)
		_, err = c.RunPass(t.Context(), Compaction, false)
		require.NoError(t, err)
		require.Equal(t, want, replay())
		d, err := p.Describe(t.Context())
		require.NoError(t, err)
		if round < 4 {
			most = max(most, d.Bytes)
		}
		require.LessOrEqual(t, d.Bytes, 2*most, "round %d", round)
		if round%3 == 2 {
			require.NoError(t, c.stop())
			c.running = start(t, c.o)
			p = c.partition(c.topic, 0)
			require.Equal(t, want, replay())
			owner++
		}
	}
}

// Compaction and retention run beside those who write and read: nobody waits for
// them, misses what stays, or sees anything twice or out of order.
func TestUpkeepBesideReadersAndWriters(t *testing.T) {
	c := newCompacted(t, 1, map[string]string{"cleanup.policy": "compact,delete", "retention.bytes": "1000"})
	p := c.partition(c.topic, 0)
	var work, passing sync.WaitGroup
	var failures sync.Map
	stop := make(chan struct{})
	for reader := range 2 {
		passing.Go(func() {
			for {
				last := int64(-1)
				for at := int64(0); ; {
					got, err := p.Fetch(t.Context(), Fetch{Offset: at, MaxBytes: 3000, Epoch: NoEpoch, LastEpoch: NoEpoch, Clamp: true})
					if errors.Is(err, ErrOffsetOutOfRange) {
						break // retention was faster
					}
					if err != nil || got.Next < at {
						failures.Store(reader, fmt.Sprintf("read at %d: %+v: %v", at, got, err))
						return
					}
					for rest := got.Batches; len(rest) > 0; {
						h, err := recordbatch.ParseHeader(rest)
						if err != nil || h.BaseOffset <= last && h.BaseOffset >= got.Offset {
							failures.Store(reader, fmt.Sprintf("batch %d after %d: %v", h.BaseOffset, last, err))
							return
						}
						last, rest = h.LastOffset(), rest[h.Size():]
					}
					if len(got.Batches) == 0 && got.Next == got.Offset {
						break
					}
					at = got.Next
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	passing.Go(func() {
		for i := 0; ; i++ {
			if failed, err := c.RunPass(t.Context(), Pass(i%2), i%3 == 0); err != nil || len(failed) > 0 {
				failures.Store("pass", fmt.Sprint(failed, err))
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	const each = 200
	for writer := range 3 {
		work.Go(func() {
			for i := range each {
				_, err := appendTo(p, pairBatch(t, recordbatch.Options{}, c.now(), pair{fmt.Sprint(writer, " ", i%10), fmt.Sprint(i)}))
				if err != nil {
					failures.Store(writer, err)
				}
			}
		})
	}
	work.Wait()
	close(stop)
	passing.Wait()
	failures.Range(func(who, what any) bool {
		require.Fail(t, "somebody was disturbed", "%v: %v", who, what)
		return true
	})
	newest := map[string]string{}
	for _, r := range records(t, p) {
		newest[r.key] = r.value
	}
	for key, value := range newest {
		require.Equal(t, key[len(key)-1:], value[len(value)-1:], "%s", key)
		require.GreaterOrEqual(t, len(value), 3, "the newest of %s is %s", key, value)
	}
	mustPass(t, c.running, Compaction)
	mustPass(t, c.running, Retention)
	require.Positive(t, c.counts(p).Runs)
	require.Positive(t, c.counts(p).SegmentsDeleted)
}
