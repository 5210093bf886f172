package node

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/cold/coldtest"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// record is a record of the model.
type record struct {
	value     string
	timestamp int64
}

// partitionModel is a partition beside what it must be: a list.
type partitionModel struct {
	t     *testing.T
	disk  *memfs.FS
	node  *running
	topic uuid.UUID
	p     *Partition
	// store is its cold storage, nil when it has none.
	store *coldtest.Store

	records []record
	// ends are the offsets after each batch.
	ends  []int64
	start int64
	fence int64
	named int
}

func (m *partitionModel) open() {
	o := options(m.disk)
	if m.store != nil {
		o = coldOptions(m.disk, m.store)
	}
	m.node = start(m.t, o)
	require.NoError(m.t, m.node.Place([]*persistv1.CatalogTopic{
		placement(m.topic, 1, map[string]string{"segment.bytes": "1500", "index.interval.bytes": "300", "retention.ms": "-1"}, 1),
	}))
	m.p = m.node.partition(m.topic, 0)
}

func (m *partitionModel) end() int64 { return int64(len(m.records)) }

// Append appends up to three batches at once.
func (m *partitionModel) Append(t *rapid.T) {
	var batches [][]byte
	base := m.end()
	for range rapid.IntRange(1, 3).Draw(t, "batches") {
		b := recordbatch.NewBuilder(recordbatch.Options{})
		for range rapid.IntRange(1, 5).Draw(t, "records") {
			m.named++
			r := record{
				value:     fmt.Sprintf("%d-%0*d", m.named, rapid.IntRange(1, 200).Draw(t, "size"), 0),
				timestamp: rapid.Int64Range(0, 50).Draw(t, "timestamp"),
			}
			b.Append(r.timestamp, nil, []byte(r.value), nil)
			m.records = append(m.records, r)
		}
		batch, err := b.Finish()
		require.NoError(t, err)
		batches = append(batches, batch)
		m.ends = append(m.ends, m.end())
	}
	result, err := appendTo(m.p, batches...)
	require.NoError(t, err)
	require.Equal(t, base, result.BaseOffset)
	require.Equal(t, m.end(), result.EndOffset)
	require.Equal(t, m.start, result.StartOffset)
}

// Fetch reads from anywhere, in and out of range.
func (m *partitionModel) Fetch(t *rapid.T) {
	f := Fetch{
		Offset:   rapid.Int64Range(-2, m.end()+2).Draw(t, "offset"),
		MaxBytes: rapid.SampledFrom([]int{0, 1, 100, 500, 1 << 20}).Draw(t, "max bytes"),
		Clamp:    rapid.Bool().Draw(t, "clamp"),
		Strict:   rapid.Bool().Draw(t, "strict"),
		Epoch:    NoEpoch, LastEpoch: NoEpoch,
	}
	got, err := m.p.Fetch(t.Context(), f)
	if !f.Clamp && (f.Offset < m.start || f.Offset > m.end()) {
		require.ErrorIs(t, err, ErrOffsetOutOfRange)
		return
	}
	require.NoError(t, err)
	require.Equal(t, m.end(), got.View.HighWatermark)
	require.Equal(t, m.start, got.View.State.StartOffset)
	from := max(f.Offset, m.start)
	require.Equal(t, from, got.Offset)
	if f.Strict {
		require.LessOrEqual(t, len(got.Batches), f.MaxBytes)
	}
	if len(got.Batches) == 0 {
		require.Equal(t, from, got.Next)
		require.True(t, from >= m.end() || f.Strict, "nothing was read at %d of %d", from, m.end())
		return
	}
	m.compare(t, got, from, f.MaxBytes)
}

// compare checks batches that were read: whole ones, from the one with the offset
// on, no more than was asked for but for the first.
func (m *partitionModel) compare(t *rapid.T, got Fetched, from int64, maxBytes int) {
	at, first := int64(-1), true
	for rest := got.Batches; len(rest) > 0; first = false {
		batch, more, err := recordbatch.Next(rest)
		require.NoError(t, err)
		require.NoError(t, recordbatch.CheckCRC(batch))
		h, err := recordbatch.ParseHeader(batch)
		require.NoError(t, err)
		if first {
			require.LessOrEqual(t, h.BaseOffset, from)
			require.Greater(t, h.NextOffset(), from)
			require.True(t, len(batch) == len(got.Batches) || len(got.Batches) <= maxBytes)
		} else {
			require.Equal(t, at, h.BaseOffset)
		}
		for r, err := range recordbatch.Records(batch, recordbatch.Limits{}) {
			require.NoError(t, err)
			require.Equal(t, record{string(r.Value), r.Timestamp}, m.records[r.Offset])
		}
		at, rest = h.NextOffset(), more
		require.Contains(t, m.ends, at)
	}
	require.Equal(t, at, got.Next)
}

// AdvanceStart moves the start, forward and not.
func (m *partitionModel) AdvanceStart(t *rapid.T) {
	to := rapid.Int64Range(-2, m.end()+1).Draw(t, "offset")
	got, err := m.p.AdvanceStart(t.Context(), to)
	switch {
	case to == HighWatermarkOffset:
		to = m.end()
	case to < 0 || to > m.end():
		require.ErrorIs(t, err, ErrOffsetOutOfRange)
		return
	}
	require.NoError(t, err)
	m.start = max(m.start, to)
	require.Equal(t, m.start, got)
	d, err := m.p.Describe(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, d.Segments, len(m.ends)+1)
}

// Fence raises the fence, or meets a higher one.
func (m *partitionModel) Fence(t *rapid.T) {
	epoch := rapid.Int64Range(0, 12).Draw(t, "epoch")
	end, err := m.p.Fence(t.Context(), epoch)
	if epoch < m.fence {
		var fenced *replica.FencedError
		require.ErrorAs(t, err, &fenced)
		require.Equal(t, m.fence, fenced.Fence)
		return
	}
	require.NoError(t, err)
	require.Equal(t, m.end(), end)
	m.fence = epoch
}

// List finds offsets by time and by name.
func (m *partitionModel) List(t *rapid.T) {
	asked := rapid.Int64Range(-6, 55).Draw(t, "timestamp")
	want := Listed{Offset: -1, Timestamp: -1}
	found := func(r record, offset int64) {
		want.Offset, want.Timestamp = max(offset, m.start), r.timestamp
	}
	switch asked {
	case Latest:
		want.Offset = m.end()
	case Earliest:
		want.Offset = m.start
	case EarliestLocal, LatestTiered, EarliestPendingUpload:
		want.Offset = m.tiered(t, asked)
	case MaxTimestamp:
		t.Skip("what is left of the segment with the start counts, see TestListOffsets")
	default:
		if m.start > 0 {
			t.Skip("the same")
		}
		for offset, r := range m.records {
			if r.timestamp >= asked {
				found(r, int64(offset))
				break
			}
		}
	}
	got, err := m.p.ListOffsets(t.Context(), asked, NoEpoch)
	require.NoError(t, err)
	require.Equal(t, want.Offset, got.Offset)
	require.Equal(t, want.Timestamp, got.Timestamp)
}

// tiered is an offset by its name, as it follows from what there is in cold
// storage.
func (m *partitionModel) tiered(t *rapid.T, name int64) int64 {
	d, err := m.p.Describe(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, m.start, d.LocalStart)
	end := d.View.State.Cold.End(m.start)
	require.LessOrEqual(t, d.LocalStart, end, "a gap between cold storage and the disk")
	switch {
	case name == EarliestLocal:
		return d.LocalStart
	case name == EarliestPendingUpload && m.store != nil:
		return end
	case name == LatestTiered && end > m.start:
		return end - 1
	}
	return -1
}

// Sleep gives the log's handles back.
func (m *partitionModel) Sleep(*rapid.T) {
	m.p.sleep()
	require.NoError(m.t, m.p.await(false, func(*replica.Replica) error { return nil }))
}

// Restart stops cleanly, is killed, or loses power.
func (m *partitionModel) Restart(t *rapid.T) {
	var after *memfs.FS
	switch rapid.SampledFrom([]string{"clean", "kill", "power"}).Draw(t, "how") {
	case "kill":
		after = m.disk.Kill()
	case "power":
		seed := rapid.Uint64().Draw(t, "seed")
		after = m.disk.Crash(rand.New(rand.NewPCG(seed, 5)))
	}
	require.NoError(t, m.node.stop())
	if after == nil {
		after = m.disk.Kill()
	}
	m.disk = after
	m.open()
}

// Check compares what the partition says of itself.
func (m *partitionModel) Check(t *rapid.T) {
	d, err := m.p.Describe(t.Context())
	require.NoError(t, err)
	state := d.View.State
	require.True(t, m.store != nil || state.Cold == nil)
	state.Cold = nil
	require.Equal(t, replica.State{StartOffset: m.start, OwnerEpoch: m.fence}, state)
	require.Equal(t, m.end(), d.View.HighWatermark)
	require.Equal(t, m.end(), d.View.LogEnd)
}

// tieredModel is a partition of which most is in cold storage.
type tieredModel struct{ partitionModel }

// TierUp uploads what is sealed and drops it from the disk.
func (m *tieredModel) TierUp(t *rapid.T) {
	failures, err := m.node.RunPass(t.Context(), Retention, true)
	require.NoError(t, err)
	require.Empty(t, failures)
	d, err := m.p.Describe(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, d.Segments, 1)
	require.Len(t, m.store.Names(), len(d.View.State.Cold.Segments()))
}

// A partition is a list of records with a start and a fence, whatever is asked of
// it and however often its node dies.
func TestPartitionIsAList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &partitionModel{t: t, disk: memfs.New(), topic: uuid.New()}
		m.run(rt, rapid.StateMachineActions(m))
	})
}

// Nothing that a reader can see tells that most of a partition is in cold storage.
func TestTieredPartitionIsAList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &tieredModel{partitionModel{t: t, disk: memfs.New(), topic: uuid.New(), store: coldtest.New()}}
		m.run(rt, rapid.StateMachineActions(m))
	})
}

func (m *partitionModel) run(t *rapid.T, actions map[string]func(*rapid.T)) {
	m.open()
	defer func() { require.NoError(t, m.node.stop()) }()
	t.Repeat(actions)
	var want []string
	for _, r := range m.records[m.start:] {
		want = append(want, r.value)
	}
	require.Equal(t, want, values(m.t, m.p))
}
