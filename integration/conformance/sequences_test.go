package conformance

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// window is how many of a producer's last records on a partition are known.
const window = 128

// A ledger is what a topic should be after requests that were made one after the
// other.
type ledger struct {
	// Of each partition, the offset of the next record.
	ends []uint64
	// What each producer has written to a partition.
	tracks map[trackKey]*track
}

type trackKey struct {
	producer  string
	partition int32
}

// track has the offset of each sequence from first on.
type track struct {
	first   int64
	offsets []uint64
}

func (t *track) next() int64 { return t.first + int64(len(t.offsets)) }

// answer is what the request should get: where its records are, or a word of the
// error.
func (l *ledger) answer(producer string, records []record) ([]placed, string) {
	// All of it is checked before anything is written.
	ends := append([]uint64{}, l.ends...)
	tracks := make(map[trackKey]*track)
	of := func(partition int32) *track {
		key := trackKey{producer, partition}
		if tracks[key] == nil {
			tracks[key] = &track{}
			if known := l.tracks[key]; known != nil {
				tracks[key] = &track{known.first, append([]uint64{}, known.offsets...)}
			}
		}
		return tracks[key]
	}
	all := make([]placed, len(records))
	for i, r := range records {
		p := placed{partition: uint32(r.partition)}
		if producer == "" {
			p.offset = ends[r.partition]
			ends[r.partition]++
			all[i] = p
			continue
		}
		t := of(r.partition)
		switch {
		case len(t.offsets) == 0 || r.sequence == t.next():
			if len(t.offsets) == 0 {
				t.first = r.sequence
			}
			p.offset = ends[r.partition]
			ends[r.partition]++
			t.offsets = append(t.offsets, p.offset)
		case r.sequence > t.next():
			return nil, "sequence gap"
		case r.sequence < t.first || r.sequence < t.next()-window:
			return nil, "sequence too low"
		default:
			p.offset, p.duplicate = t.offsets[r.sequence-t.first], 1
		}
		all[i] = p
	}
	l.ends = ends
	for key, t := range tracks {
		l.tracks[key] = t
	}
	return all, ""
}

// draw makes a request: mostly what comes next, and what goes wrong now and then.
func (l *ledger) draw(r *rand.Rand, partitions int) (string, []record) {
	producer := []string{"a", "a", "a", "b", ""}[r.IntN(5)]
	n := 1 + r.IntN(4)
	if r.IntN(20) == 0 {
		n = 150
	}
	partition := int32(r.IntN(partitions))
	var records []record
	for range n {
		if r.IntN(40) == 0 {
			partition = int32(r.IntN(partitions))
		}
		sequence := int64(r.IntN(5))
		if t := l.tracks[trackKey{producer, partition}]; t != nil {
			sequence = t.next()
		}
		for _, before := range records {
			if before.partition == partition {
				sequence = max(sequence, before.sequence+1)
			}
		}
		switch r.IntN(30) {
		case 0:
			sequence++
		case 1, 2, 3:
			sequence -= int64(r.IntN(6))
		case 4:
			sequence -= int64(r.IntN(2 * window))
		}
		sequence = max(sequence, 0)
		if producer == "" {
			sequence = none
		}
		records = append(records, record{nil, fmt.Sprint(producer, sequence), partition, sequence})
	}
	return producer, records
}

// Produces of one connection to one topic get the answers that they would get one
// by one, however many are under way.
func TestPipelinedSequences(t *testing.T) {
	onEach(t, func(t *testing.T, s server) {
		for seed := range uint64(6) {
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { pipelineSequences(t, s, seed) })
		}
	})
}

func pipelineSequences(t *testing.T, s server, seed uint64) {
	const partitions, requests = 2, 250
	r := rand.New(rand.NewPCG(seed, 0))
	topic := s.topic(t, partitions)
	l := &ledger{ends: make([]uint64, partitions), tracks: make(map[trackKey]*track)}
	c := s.join(t, uint32(seed%2))
	type expected struct {
		what    string
		placed  []placed
		refused string
	}
	want := make(map[uint32]expected, requests)
	var frames []byte
	for range requests {
		producer, records := l.draw(r, partitions)
		name := producer
		if name != "" {
			name += "-" + topic
		}
		frames = append(frames, c.frame(opProduce, produce(topic, name, records...))...)
		e := expected{what: fmt.Sprintf("%q %v", producer, records)}
		e.placed, e.refused = l.answer(producer, records)
		want[c.last] = e
	}
	// Whoever reads finds out when it fails.
	go func() { _, _ = c.net.Write(frames) }()
	for range requests {
		a := c.next()
		e, ok := want[a.id]
		require.True(t, ok)
		delete(want, a.id)
		if e.refused != "" {
			require.Equal(t, byte(opError), a.op, e.what)
			require.Contains(t, string(a.payload), e.refused, e.what)
			continue
		}
		require.Equal(t, byte(opProduce|0x80), a.op, "%s: %s", e.what, a.payload)
		require.Equal(t, e.placed, placedIn(t, a.payload), e.what)
	}
}

func placedIn(t *testing.T, b []byte) []placed {
	t.Helper()
	require.Len(t, b, 4+13*int(binary.BigEndian.Uint32(b)))
	var all []placed
	for b = b[4:]; len(b) > 0; b = b[13:] {
		all = append(all, placed{binary.BigEndian.Uint32(b), binary.BigEndian.Uint64(b[4:]), b[12]})
	}
	return all
}
