package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/cold/coldtest"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
	"github.com/sluiceio/sluice/services/storage/internal/retain"
)

// coldHistory is a partition over several processes that die, above a store that
// outlives them and fails now and then.
type coldHistory struct {
	t     *testing.T
	rng   *rand.Rand
	store *coldtest.Store
	clock *clock
	told  *told
	key   replica.Key
	// retention is the topic's retention.bytes, -1 for none.
	retention int64
	// cut is how far retention has come.
	cut int64

	mu     sync.Mutex
	faulty bool
}

// hook has operations fail: always once the process is dead, though one that was
// on its way may still be done, and now and then while the store is faulty.
func (h *coldHistory) hook(m *machine) func(context.Context, coldtest.Op, string) coldtest.Fault {
	return func(context.Context, coldtest.Op, string) coldtest.Fault {
		h.mu.Lock()
		defer h.mu.Unlock()
		fault := coldtest.Fault{Err: coldtest.ErrFault}
		switch h.rng.IntN(3) {
		case 0:
			fault.Done = true
		case 1:
			fault.Late = true
		}
		if !m.lived(func() {}) {
			fault.Err = errDead
			return fault
		}
		if h.faulty && h.rng.IntN(4) == 0 {
			return fault
		}
		return coldtest.Fault{}
	}
}

func (h *coldHistory) setFaulty(faulty bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faulty = faulty
}

func (h *coldHistory) draw(n int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rng.IntN(n)
}

func (h *coldHistory) options(m *machine, disk *memfs.FS) Options {
	o := coldOptions(faultfs.New(disk, m.hook), h.store)
	o.Now = h.clock.now
	o.Defaults.SegmentBytes = int64(1024 + 300*h.draw(4)) // the next process seals elsewhere
	o.Defaults.Local = retain.Limits{Ms: -1, Bytes: int64(h.draw(3) * 800)}
	return o
}

// live is one process: it appends, runs passes and moves the start, until all is
// done or it dies.
func (h *coldHistory) live(name string, disk *memfs.FS) *memfs.FS {
	m := &machine{disk: disk, power: h.draw(3) > 0, rng: rand.New(rand.NewPCG(uint64(h.draw(1<<30)), 1)), dieAt: 1 + h.draw(400)}
	h.store.Hook(h.hook(m))
	n, err := Open(h.options(m, disk))
	if err != nil {
		require.ErrorIs(h.t, err, errDead)
		return m.die()
	}
	l := &life{t: h.t, machine: m, told: h.told, node: run(h.t, n), name: name}
	if h.place(n) == nil {
		m.lived(func() { h.told.placed[h.key.Topic] = 1 })
		h.setFaulty(true)
		for i := 0; i < 40 && m.lived(func() {}); i++ {
			h.act(l, i)
		}
		h.setFaulty(false)
	}
	after := m.die()
	_ = l.node.stop() // on a disk that nobody looks at any more
	return after
}

func (h *coldHistory) place(n *Node) error {
	return n.Place([]*persistv1.CatalogTopic{placement(h.key.Topic, 1, map[string]string{
		"retention.ms": "-1", "retention.bytes": num(h.retention),
	}, 1)})
}

func (h *coldHistory) act(l *life, i int) {
	h.clock.advance(time.Duration(h.draw(20)) * time.Minute)
	if h.draw(10) == 0 {
		h.store.Settle()
	}
	switch h.draw(10) {
	case 0:
		if h.retention < 0 {
			l.advance(h.key)
		}
	case 1, 2, 3:
		_, _ = l.node.RunPass(context.Background(), Tiering, false)
	case 4:
		if h.retention >= 0 {
			h.retain(l)
		} else {
			_, _ = l.node.RunPass(context.Background(), Retention, true)
		}
	default:
		h.write(l, i)
	}
}

func (h *coldHistory) write(l *life, i int) {
	values := make([]string, 1+i%3)
	for j := range values {
		values[j] = fmt.Sprintf("%s-%d-%d-%s", l.name, i, j, strings.Repeat("x", h.draw(300)))
	}
	p, err := l.node.Partition(h.key)
	if err != nil || !l.note(func() { l.asking(h.key, values) }) {
		return
	}
	result, err := appendTo(p, batchOf(h.t, values...))
	if err != nil {
		return
	}
	l.note(func() {
		for j, value := range values {
			h.told.acked[h.key][result.BaseOffset+int64(j)] = value
		}
	})
}

// retain runs retention, which is to keep at least what the topic says.
func (h *coldHistory) retain(l *life) {
	_, _ = l.node.RunPass(context.Background(), Retention, true)
	h.setFaulty(false)
	defer h.setFaulty(true)
	if p, err := l.node.Partition(h.key); err == nil {
		h.kept(p)
	}
}

// kept counts what can be read, if the process lives, after retention has moved
// the start offset.
func (h *coldHistory) kept(p *Partition) {
	d, err := p.Describe(context.Background())
	if err != nil || d.View.State.StartOffset == 0 {
		return
	}
	start, bytes := d.View.State.StartOffset, int64(0)
	for offset := start; offset < d.View.HighWatermark; {
		got, err := p.Fetch(context.Background(), Fetch{Offset: offset, MaxBytes: 1 << 20, Epoch: NoEpoch, LastEpoch: NoEpoch})
		if err != nil {
			return
		}
		bytes, offset = bytes+int64(len(got.Batches)), got.Next
	}
	require.GreaterOrEqual(h.t, bytes, h.retention, "retention deleted what is within it, up to %d", start)
	h.told.startAsked[h.key] = max(h.told.startAsked[h.key], start)
	h.cut = max(h.cut, start)
}

// finish starts a last process on a store that is well again: all is there that was
// acknowledged and not deleted, and the store has the objects of the segments and
// no other.
func (h *coldHistory) finish(disk *memfs.FS) (segments int) {
	h.store.Hook(nil)
	h.store.Settle()
	o := coldOptions(disk, h.store)
	o.Now = h.clock.now
	r := start(h.t, o)
	defer func() { require.NoError(h.t, r.stop()) }()
	p, err := r.Partition(h.key)
	if err != nil {
		return 0 // it died before it was placed
	}
	if h.retention >= 0 {
		h.kept(p)
	}
	l := &life{t: h.t, told: h.told, node: r}
	l.verify()
	for range 2 {
		mustPass(h.t, r, Tiering)
		h.clock.advance(2 * o.Cold.SweepInterval)
	}
	mustPass(h.t, r, Tiering)
	l.verify()
	d, err := p.Describe(h.t.Context())
	require.NoError(h.t, err)
	state := d.View.State.Cold
	var want []string
	for _, s := range state.Segments() {
		want = append(want, s.Object.Name(p.coldPrefix(state)))
	}
	require.ElementsMatch(h.t, want, h.store.Names(), "the store has what nobody names, or lacks what somebody does")
	require.Empty(h.t, state.Intents())
	require.Empty(h.t, state.Garbage())
	return len(want)
}

// Wherever a process dies and whatever becomes of its requests to the store, no
// acknowledged record within retention is unreadable once the store is well, nothing
// is deleted within retention, and no object is left that nobody names. Tried:
// dropping before added is committed, deleting intents without a word, counting
// what is on disk and in cold storage twice, and no sweep: each makes it fail.
func TestColdHistoriesWithCrashes(t *testing.T) {
	segments, cut := 0, int64(0)
	for seed := uint64(1); seed <= *histories; seed++ {
		if *history != 0 && seed != *history {
			continue
		}
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 21))
			h := &coldHistory{
				t: t, rng: rng, store: coldtest.New(), clock: newClock(), told: newTold(),
				key: replica.Key{Topic: uuid.New()}, retention: -1,
			}
			if rng.IntN(2) == 0 {
				h.retention = int64(1500 + rng.IntN(6000))
			}
			disk := memfs.New()
			for life := range 4 {
				disk = h.live(fmt.Sprint(life), disk)
			}
			segments += h.finish(disk)
			cut += h.cut
		})
		if !ok {
			t.Logf("go test -run TestColdHistoriesWithCrashes -node.history %d (goroutines may differ)", seed)
			return
		}
	}
	t.Logf("%d segments in cold storage at the ends, %d offsets deleted by retention", segments, cut)
	require.Positive(t, segments)
	require.True(t, cut > 0 || *history != 0)
}

// Whichever operation of the disk fails once while segments go to cold storage, and
// the power with it: what was acknowledged is there, once, and nothing is left in
// the store.
func TestAnyOperationMayFailWhileTiering(t *testing.T) {
	for nth := 1; ; nth++ {
		disk, store, topic := memfs.New(), coldtest.New(), uuid.New()
		var ops atomic.Int64
		failing := faultfs.New(disk, func(op faultfs.Op, _ string) error {
			if op != faultfs.Close && ops.Add(1) == int64(nth) {
				return syscall.EIO
			}
			return nil
		})
		c := newClock()
		o := coldOptions(failing, store)
		o.Now = c.now
		n, err := Open(o)
		if err != nil {
			continue
		}
		r := run(t, n)
		acked := map[int64]string{}
		write := func(count int) {
			for i := range count {
				value := fmt.Sprintf("%d-%d-%s", len(acked), i, strings.Repeat("x", 400))
				if p, err := r.Partition(replica.Key{Topic: topic}); err == nil {
					if result, err := appendTo(p, batchOf(t, value)); err == nil {
						acked[result.BaseOffset] = value
					}
				}
				c.advance(time.Second)
			}
		}
		placed := r.Place([]*persistv1.CatalogTopic{placement(topic, 1, map[string]string{"retention.ms": "-1"}, 1)})
		for range 3 {
			write(3)
			_, err := r.RunPass(t.Context(), Tiering, false)
			require.NoError(t, err)
		}
		_ = r.stop()
		happened := ops.Load() >= int64(nth)

		o.FS = disk.Crash(nil)
		again := start(t, o)
		p, err := again.Partition(replica.Key{Topic: topic})
		require.True(t, err == nil || placed != nil)
		if err == nil {
			for range 2 {
				mustPass(t, again, Tiering)
				c.advance(2 * o.Cold.SweepInterval)
			}
			got := values(t, p)
			for offset, value := range acked {
				require.Greater(t, len(got), int(offset), "operation %d", nth)
				require.Equal(t, value, got[offset], "operation %d", nth)
			}
			d, err := p.Describe(t.Context())
			require.NoError(t, err)
			require.Len(t, store.Names(), len(d.View.State.Cold.Segments()), "operation %d", nth)
			require.Empty(t, d.View.State.Cold.Intents())
		}
		require.NoError(t, again.stop())
		if !happened {
			require.Greater(t, nth, 50)
			return
		}
	}
}
