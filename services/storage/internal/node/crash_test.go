package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

var (
	histories = flag.Uint64("node.histories", 80, "random histories with crashes to try")
	history   = flag.Uint64("node.history", 0, "the one history to try")
)

var errDead = errors.New("the process is dead")

// machine is a disk under a process that dies before its dieAt-th operation on
// it. What the process is told afterwards does not count: the disk that the next
// one finds was taken at that moment.
type machine struct {
	disk  *memfs.FS
	power bool
	rng   *rand.Rand

	mu    sync.Mutex
	dieAt int
	ops   int
	// after is the disk that the next process finds; nil while this one lives.
	after *memfs.FS
}

func (m *machine) hook(op faultfs.Op, _ string) error {
	if op == faultfs.Close {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.after != nil {
		return errDead
	}
	if m.ops++; m.ops != m.dieAt {
		return nil
	}
	m.takeLocked()
	return errDead
}

func (m *machine) takeLocked() {
	if m.power {
		m.after = m.disk.Crash(m.rng)
	} else {
		m.after = m.disk.Kill()
	}
}

// die ends the process now, if it has not died yet, and returns what is left.
func (m *machine) die() *memfs.FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.after == nil {
		m.takeLocked()
	}
	return m.after
}

// lived takes note of an acknowledgement, unless the process was dead when it
// came. It tells whether the process lives.
func (m *machine) lived(note func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.after != nil {
		return false
	}
	note()
	return true
}

// told is what a process acknowledged, and what it was asked for; guarded by the
// machine's mutex while writers run.
type told struct {
	// acked has the values that were acknowledged, by offset.
	acked map[replica.Key]map[int64]string
	// asked has all values that may be there.
	asked map[replica.Key]map[string]bool
	// fence, start and removal are the newest that was acknowledged, and asked.
	fence, fenceAsked map[replica.Key]int64
	start, startAsked map[replica.Key]int64
	placed            map[uuid.UUID]int
	removed, removing map[uuid.UUID]bool
}

func newTold() *told {
	return &told{
		acked: map[replica.Key]map[int64]string{}, asked: map[replica.Key]map[string]bool{},
		fence: map[replica.Key]int64{}, fenceAsked: map[replica.Key]int64{},
		start: map[replica.Key]int64{}, startAsked: map[replica.Key]int64{},
		placed: map[uuid.UUID]int{}, removed: map[uuid.UUID]bool{}, removing: map[uuid.UUID]bool{},
	}
}

// life is one process of a history: writers that each wait for their own
// append, an owner that raises fences, and an operator.
type life struct {
	t       *testing.T
	machine *machine
	told    *told
	node    *running
	topics  []uuid.UUID // of two partitions each
	shard   uuid.UUID
	name    string
}

func (l *life) note(note func()) bool { return l.machine.lived(note) }

// write appends to a partition until the process dies or n are written.
func (l *life) write(writer, n int, key replica.Key, owner int64) {
	for i := range n {
		count := 1 + i%3
		values := make([]string, count)
		for j := range values {
			values[j] = fmt.Sprintf("%s-%d-%d-%d-%s", l.name, writer, i, j, strings.Repeat("x", (i*37)%200))
		}
		if !l.note(func() { l.asking(key, values) }) {
			return
		}
		p, err := l.node.Partition(key)
		if err != nil {
			return
		}
		a, err := p.Append(context.Background(), [][]byte{batchOf(l.t, values...)}, owner)
		if err != nil {
			return
		}
		result, err := a.Wait(context.Background())
		if err != nil {
			return
		}
		l.note(func() {
			for j, value := range values {
				l.told.acked[key][result.BaseOffset+int64(j)] = value
			}
		})
	}
}

func (l *life) asking(key replica.Key, values []string) {
	if l.told.acked[key] == nil {
		l.told.acked[key], l.told.asked[key] = map[int64]string{}, map[string]bool{}
	}
	for _, value := range values {
		l.told.asked[key][value] = true
	}
}

// operate advances start offsets, places and removes topics.
func (l *life) operate(rng *rand.Rand) {
	for range 6 {
		switch rng.IntN(4) {
		case 0, 1:
			l.advance(replica.Key{Topic: l.topics[rng.IntN(len(l.topics))], Partition: int32(rng.IntN(2))})
		case 2:
			id := uuid.New()
			if l.node.Place([]*persistv1.CatalogTopic{placement(id, 2, nil, 1), placement(uuid.New(), 1, nil, 1)}) != nil {
				return
			}
			if !l.note(func() { l.told.placed[id] = 2 }) {
				return
			}
			l.write(100, 3, replica.Key{Topic: id, Partition: 1}, replica.NoOwner)
			if rng.IntN(2) == 0 {
				l.remove(id)
			}
		case 3:
			l.remove(uuid.New())
		}
	}
}

func (l *life) remove(id uuid.UUID) {
	if !l.note(func() { l.told.removing[id] = true }) {
		return
	}
	if l.node.Remove([]uuid.UUID{id, uuid.New()}, 1) == nil {
		l.note(func() { l.told.removed[id] = true })
	}
}

func (l *life) advance(key replica.Key) {
	p, err := l.node.Partition(key)
	if err != nil {
		return
	}
	d, err := p.Describe(context.Background())
	if err != nil {
		return
	}
	to := (d.View.State.StartOffset + d.View.HighWatermark) / 2
	if !l.note(func() { l.told.startAsked[key] = max(l.told.startAsked[key], to) }) {
		return
	}
	if start, err := p.AdvanceStart(context.Background(), to); err == nil {
		l.note(func() { l.told.start[key] = max(l.told.start[key], start) })
	}
}

// own raises the fence of the shard and writes as its owner.
func (l *life) own() {
	key := replica.Key{Topic: l.shard}
	p, err := l.node.Partition(key)
	if err != nil {
		return
	}
	for range 4 {
		var epoch int64
		if !l.note(func() {
			epoch = l.told.fenceAsked[key] + 1
			l.told.fenceAsked[key] = epoch
		}) {
			return
		}
		if _, err := p.Fence(context.Background(), epoch); err != nil {
			return
		}
		l.note(func() { l.told.fence[key] = epoch })
		l.write(int(1000+epoch), 3, key, epoch)
	}
}

// run lets everybody work until all is done or the process dies.
func (l *life) run(rng *rand.Rand) {
	var group sync.WaitGroup
	for writer := range 6 {
		key := replica.Key{Topic: l.topics[writer%len(l.topics)], Partition: int32(writer % 2)}
		group.Go(func() { l.write(writer, 12, key, replica.NoOwner) })
	}
	group.Go(l.own)
	group.Go(func() { l.operate(rng) })
	group.Wait()
}

// verify compares what a process finds with what the ones before it told.
func (l *life) verify() {
	t, told := l.t, l.told
	for key, acked := range told.acked {
		p, err := l.node.Partition(key)
		if told.removed[key.Topic] || told.removing[key.Topic] && err != nil {
			require.ErrorIs(t, err, ErrUnknownPartition, "a removed topic is back")
			continue
		}
		require.NoError(t, err)
		d, err := p.Describe(t.Context())
		require.NoError(t, err)
		start := d.View.State.StartOffset
		require.GreaterOrEqual(t, start, told.start[key], "%s: an acknowledged start offset went back", key)
		require.LessOrEqual(t, start, told.startAsked[key])
		require.GreaterOrEqual(t, d.View.State.OwnerEpoch, told.fence[key], "%s: an acknowledged fence is gone", key)
		require.LessOrEqual(t, d.View.State.OwnerEpoch, told.fenceAsked[key])

		got := values(t, p)
		require.Len(t, got, int(d.View.HighWatermark-start), "%s: offsets have gaps", key)
		seen := map[string]bool{}
		for i, value := range got {
			offset := start + int64(i)
			if want, ok := acked[offset]; ok {
				require.Equal(t, want, value, "%s: offset %d has another record than was acknowledged", key, offset)
			}
			require.True(t, told.asked[key][value], "%s: nobody wrote %q", key, value)
			require.False(t, seen[value], "%s: %q is there twice", key, value)
			seen[value] = true
			// What survived unacknowledged is from now on what readers have seen.
			acked[offset] = value
		}
		for offset, value := range acked {
			require.Less(t, offset, d.View.HighWatermark, "%s: lost %q", key, value)
		}
	}
	for id, partitions := range told.placed {
		_, err := l.node.Partition(replica.Key{Topic: id, Partition: int32(partitions - 1)})
		if told.removed[id] || told.removing[id] && err != nil {
			require.ErrorIs(t, err, ErrUnknownPartition)
			continue
		}
		require.NoError(t, err, "a placed topic is gone")
	}
	for key, fence := range told.fence {
		p := l.node.partition(key.Topic, key.Partition)
		a, err := p.Append(t.Context(), [][]byte{batchOf(t, "late")}, fence-1)
		require.NoError(t, err)
		_, err = a.Wait(t.Context())
		var fenced *replica.FencedError
		require.ErrorAs(t, err, &fenced, "an older owner writes")
	}
}

// nothingSetAside: a folder that a crash left half made is known for what it is.
func nothingSetAside(t *testing.T, disk *memfs.FS) {
	names, err := disk.List(dir + "/" + unclaimedFolder)
	require.True(t, err != nil || len(names) == 0, "set aside: %v", slices.Clone(names))
}

func runHistory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	disk := memfs.New()
	told := newTold()
	topics, shard := []uuid.UUID{uuid.New(), uuid.New()}, uuid.New()
	for life := range 3 {
		disk = runLife(t, rng, disk, told, topics, shard, fmt.Sprint(life))
	}
	last := &lifeOn{t: t, disk: disk, told: told}
	last.verify()
}

// lifeOn is a process that only looks.
type lifeOn struct {
	t    *testing.T
	disk *memfs.FS
	told *told
}

func (l *lifeOn) verify() {
	r := start(l.t, options(l.disk))
	(&life{t: l.t, told: l.told, node: r}).verify()
	require.NoError(l.t, r.stop())
	nothingSetAside(l.t, l.disk)
}

func runLife(t *testing.T, rng *rand.Rand, disk *memfs.FS, told *told, topics []uuid.UUID, shard uuid.UUID, name string) *memfs.FS {
	m := &machine{disk: disk, power: rng.IntN(3) > 0, rng: rand.New(rand.NewPCG(rng.Uint64(), 1)), dieAt: 1 + rng.IntN(700)}
	if rng.IntN(3) == 0 {
		m.dieAt = 1 + rng.IntN(80) // within the start, the placement and the first appends
	}
	o := options(faultfs.New(disk, m.hook))
	o.Workers, o.MaxAwake = 1+rng.IntN(4), 1+rng.IntN(4)
	o.IdleAfter = time.Duration(1+rng.IntN(20)) * time.Millisecond
	o.Defaults.SegmentBytes = int64(1024 + rng.IntN(4096))
	operator := rand.New(rand.NewPCG(rng.Uint64(), 2))

	n, err := Open(o)
	if err != nil {
		require.ErrorIs(t, err, errDead)
		return m.die()
	}
	l := &life{t: t, machine: m, told: told, node: run(t, n), topics: topics, shard: shard, name: name}
	// Records larger than a sector, so that a torn write may lose an earlier one
	// and keep a later one.
	long := map[string]string{"note": strings.Repeat("n", 700)}
	records := []*persistv1.CatalogTopic{placement(topics[0], 2, long, 1), placement(topics[1], 2, long, 1), placement(shard, 1, long, 1)}
	if l.node.Place(records) == nil {
		m.lived(func() {
			for _, id := range topics {
				told.placed[id] = 2
			}
			told.placed[shard] = 1
		})
		l.run(operator)
	}
	after := m.die()
	_ = l.node.stop() // on a disk that nobody looks at any more
	return after
}

// Wherever a process with several writers dies, by a kill or with the power, the
// next one finds every acknowledged record at its offset, offsets without gaps,
// nothing twice, fences and start offsets no lower than was acknowledged, placed
// topics and no removed one.
func TestHistoriesWithCrashes(t *testing.T) {
	if *history != 0 {
		runHistory(t, *history)
		return
	}
	for seed := uint64(1); seed <= *histories; seed++ {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { runHistory(t, seed) }) {
			t.Logf("go test -run TestHistoriesWithCrashes -node.history %d (goroutines may differ)", seed)
			return
		}
	}
}

// What a kill leaves in the page cache alone is relied upon only once it is
// durable: wherever the first process is killed, a power cut under the second
// takes nothing that either acknowledged.
func TestPowerCutAfterAKill(t *testing.T) {
	for dieAt, died := 1, true; died; dieAt++ {
		topic := uuid.New()
		m := &machine{disk: memfs.New(), dieAt: dieAt}
		acked := 0
		appendOne := func(n *Node) error {
			if err := n.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}); err != nil {
				return err
			}
			p, err := n.Partition(replica.Key{Topic: topic})
			if err != nil {
				return err
			}
			_, err = appendTo(p, batchOf(t, fmt.Sprint(acked)))
			return err
		}
		if n, err := Open(options(faultfs.New(m.disk, m.hook))); err == nil {
			if appendOne(n) == nil {
				m.lived(func() { acked++ })
			}
			died = m.after != nil
			m.die()
			_ = run(t, n).stop()
		}

		second := start(t, options(m.after))
		require.NoError(t, appendOne(second.Node))
		acked++
		cut := m.after.Crash(nil)
		_ = second.stop()

		third := start(t, options(cut))
		got := values(t, third.partition(topic, 0))
		require.GreaterOrEqual(t, len(got), acked, "died before operation %d", dieAt)
		require.NoError(t, third.stop())
	}
}
