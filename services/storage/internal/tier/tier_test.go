package tier_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/storage/internal/tier"
)

// lineage is that of all logs here.
const lineage = 7

func TestNames(t *testing.T) {
	topic := uuid.MustParse("0192d3a4-0000-7000-8000-000000000001")
	o := tier.Object{Base: 42, Term: 7, Nonce: 0xbeef}
	prefix := tier.Prefix(topic, 3, 0xcafe)
	require.Equal(t, "0192d3a4-0000-7000-8000-000000000001/3/000000000000cafe/", prefix)
	name := o.Name(prefix)
	require.Equal(t, prefix+"00000000000000000042-7-000000000000beef.segment", name)
	got, ok := tier.ParseName(name[len(prefix):])
	require.True(t, ok)
	require.Equal(t, o, got)
	for _, strange := range []string{
		"", "x", name, "42-7-000000000000beef.segment", "00000000000000000042-0-000000000000beef.segment",
		"00000000000000000042-7-000000000000beef.segment.part", "99999999999999999999-7-000000000000beef.segment",
		"00000000000000000042-7-000000000000BEEF.segment",
	} {
		_, ok := tier.ParseName(strange)
		require.False(t, ok, strange)
	}
}

// leader is one that believes to lead: the newest may, those before it are deposed
// and have not heard of it.
type leader struct {
	term  uint64
	state *tier.State // what it has applied
	start int64
	// upload is what it has under way.
	upload *upload
	// deleted are objects that it has deleted and not said so.
	deleted []tier.Object
	// found is what a listing showed that is not acted upon yet.
	found []tier.Object
}

type upload struct {
	object tier.Object
	next   int64
	there  bool
}

// world is a partition with its log, its store and leaders that come and go.
type world struct {
	t       *rapid.T
	term    uint64
	state   *tier.State
	start   int64
	end     int64
	nonce   uint64
	leaders []*leader
	store   map[tier.Object]bool
	// late are uploads whose leader gave up, or was deposed: they may still end.
	late []tier.Object
}

func segmentOf(o tier.Object, next int64) *persistv1.ColdSegment {
	s := tier.Segment{Object: o, Next: next, Size: next - o.Base, Epochs: []tier.Epoch{{Term: 1, Start: o.Base}}}
	return s.Encode()
}

// commit has the newest leader commit a command; an older one's is lost.
func (w *world) commit(l *leader, change func(s *tier.State, term uint64) *tier.State) bool {
	if l.term != w.term {
		return false
	}
	w.state = change(w.state, l.term)
	l.state, l.start = w.state, w.start
	w.check()
	return true
}

// check holds what a state promises, and that no object of a segment is gone.
func (w *world) check() {
	segments := w.state.Segments()
	bytes := int64(0)
	for i, s := range segments {
		require.True(w.t, w.store[s.Object], "the object of segment %d is gone", s.Base)
		require.Greater(w.t, s.Next, w.start)
		if i > 0 {
			require.Equal(w.t, segments[i-1].Next, s.Base)
		} else {
			require.LessOrEqual(w.t, s.Base, w.start)
		}
		bytes += s.Size
	}
	require.Equal(w.t, bytes, w.state.Bytes())
	decoded, err := tier.Decode(w.state.Encode())
	require.NoError(w.t, err)
	require.Equal(w.t, w.state, decoded)
}

// elect has a leader take over. One that led before goes on with its upload as if
// nothing had happened.
func (w *world) elect(again *leader) *leader {
	w.term++
	l := &leader{term: w.term, state: w.state, start: w.start}
	if again != nil {
		l.upload, l.deleted, l.found = again.upload, again.deleted, again.found
	}
	w.leaders = append(w.leaders, l)
	return l
}

// active is the upload of its term that a leader has under way.
func (l *leader) active() *tier.Object {
	if l.upload == nil || l.upload.object.Term != l.term {
		return nil
	}
	return &l.upload.object
}

func (w *world) intend(l *leader) {
	if l.upload != nil {
		return
	}
	base := l.state.End(l.start)
	if rapid.IntRange(0, 9).Draw(w.t, "wrong") == 0 {
		base += rapid.Int64Range(-2, 2).Draw(w.t, "by") // it will not count
	}
	next := base + rapid.Int64Range(1, 20).Draw(w.t, "length")
	w.end = max(w.end, next)
	w.nonce++
	o := tier.Object{Base: base, Term: l.term, Nonce: w.nonce}
	if w.commit(l, func(s *tier.State, term uint64) *tier.State {
		return s.Intend(tier.Intent{Object: o, Next: next}.Command(lineage), term)
	}) {
		l.upload = &upload{object: o, next: next}
	}
}

// put has a leader's upload end in the store, or fail; then it may still end there
// one day.
func (w *world) put(l *leader) {
	if l.upload == nil || l.upload.there {
		return
	}
	if rapid.IntRange(0, 3).Draw(w.t, "outcome") == 0 {
		w.late = append(w.late, l.upload.object)
		l.upload = nil
		return
	}
	w.store[l.upload.object], l.upload.there = true, true
}

// add has a leader add what it has uploaded, or forget it.
func (w *world) add(l *leader) {
	u := l.upload
	if u == nil || !u.there {
		return
	}
	l.upload = nil
	if rapid.IntRange(0, 3).Draw(w.t, "forgotten") > 0 {
		w.commit(l, func(s *tier.State, term uint64) *tier.State { return s.Add(segmentOf(u.object, u.next), term, w.start) })
	}
}

func (w *world) clean(l *leader) {
	for _, o := range l.state.Doomed(l.active(), rapid.IntRange(1, 5).Draw(w.t, "most")) {
		delete(w.store, o)
		l.deleted = append(l.deleted, o)
	}
	w.check()
}

func (w *world) remove(l *leader) {
	removed := &persistv1.ColdRemoved{}
	for _, o := range l.deleted {
		removed.Objects = append(removed.Objects, o.Encode())
	}
	l.deleted = nil
	w.commit(l, func(s *tier.State, _ uint64) *tier.State { return s.Remove(removed) })
}

func (w *world) sweep(l *leader) {
	for _, o := range l.state.Strays(l.found, l.term) {
		delete(w.store, o)
	}
	l.found = nil
	w.check()
}

func (w *world) list(l *leader) {
	for o := range w.store {
		l.found = append(l.found, o)
	}
}

func (w *world) step() {
	l := w.leaders[rapid.IntRange(max(0, len(w.leaders)-3), len(w.leaders)-1).Draw(w.t, "leader")]
	switch rapid.IntRange(0, 12).Draw(w.t, "step") {
	case 0:
		if rapid.Bool().Draw(w.t, "again") {
			w.elect(l)
		} else {
			w.elect(nil)
		}
	case 1, 2:
		w.intend(l)
	case 3, 4:
		w.put(l)
	case 5, 6:
		w.add(l)
	case 7:
		w.clean(l)
	case 8:
		w.remove(l)
	case 9:
		to := rapid.Int64Range(w.start, min(w.start+10, max(w.start, w.end))).Draw(w.t, "start")
		w.commit(l, func(s *tier.State, _ uint64) *tier.State {
			w.start = to
			return s.Start(to)
		})
	case 10:
		w.list(l)
	case 11:
		w.sweep(l)
	case 12:
		if len(w.late) > 0 {
			w.store[w.late[0]] = true
			w.late = w.late[1:]
		}
	}
}

// Whatever leaders do, deposed ones too, and however uploads end, no object of a
// segment is ever deleted, each offset is in one segment, and once all is quiet
// nothing is left in the store that is no segment. Tried: added that counts in any
// term, intents that are deleted while they are under way, strays of any term, and
// segments that need not touch: each makes it fail.
func TestNothingIsLostAndNothingIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, store: map[tier.Object]bool{}}
		w.elect(nil)
		for range rapid.IntRange(100, 400).Draw(t, "steps") {
			w.step()
		}
		for _, l := range w.leaders {
			if l.upload != nil {
				w.late = append(w.late, l.upload.object)
			}
		}
		for _, o := range w.late {
			w.store[o] = true
		}
		last := w.elect(nil)
		w.list(last)
		last.deleted = last.state.Doomed(nil, math.MaxInt)
		for _, o := range last.deleted {
			delete(w.store, o)
		}
		w.remove(last)
		w.sweep(last)
		require.Len(t, w.store, len(w.state.Segments()))
		require.Empty(t, w.state.Intents())
		require.Empty(t, w.state.Garbage())
	})
}

func TestDue(t *testing.T) {
	locals := func(ends ...int64) []tier.Local {
		var all []tier.Local
		for i := range len(ends) - 1 {
			all = append(all, tier.Local{Base: ends[i], Next: ends[i+1], Sealed: i < len(ends)-2})
		}
		return all
	}
	upTo := func(start, next int64) *tier.State {
		var s *tier.State
		o := tier.Object{Base: start, Term: 1, Nonce: 1}
		s = s.Intend(tier.Intent{Object: o, Next: next}.Command(lineage), 1)
		return s.Add(segmentOf(o, next), 1, start)
	}
	for name, c := range map[string]struct {
		state        *tier.State
		segments     []tier.Local
		start, bound int64
		index        int
		from         int64
		due          bool
	}{
		"the first":                       {nil, locals(0, 10, 20, 30), 0, 30, 0, 0, true},
		"not below the start":             {nil, locals(0, 10, 20, 30), 10, 30, 1, 10, true},
		"whole where the start is within": {nil, locals(0, 10, 20, 30), 15, 30, 1, 10, true},
		"after what is there":             {upTo(0, 10), locals(0, 10, 20, 30), 0, 30, 1, 10, true},
		"from within, after a failover":   {upTo(0, 13), locals(0, 10, 20, 30), 0, 30, 1, 13, true},
		"not the active one":              {upTo(0, 20), locals(0, 10, 20, 30), 0, 30, 0, 0, false},
		"nothing that is not committed":   {nil, locals(0, 10, 20, 30), 0, 9, 0, 0, false},
		"committed as a whole":            {nil, locals(0, 10, 20, 30), 0, 10, 0, 0, true},
		"nothing over a gap":              {upTo(0, 10), locals(15, 20, 30), 0, 30, 0, 0, false},
		"an empty log":                    {nil, locals(0, 0), 0, 0, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			i, from, due := c.state.Due(c.segments, c.start, c.bound)
			require.Equal(t, []any{c.due, c.index, c.from}, []any{due, i, from})
		})
	}
}

// The first intent gives a log its lineage, for good; one of another does not count.
func TestLineage(t *testing.T) {
	o := tier.Object{Base: 0, Term: 1, Nonce: 1}
	var s *tier.State
	require.Zero(t, s.Lineage())
	require.Nil(t, s.Intend(tier.Intent{Object: o, Next: 5}.Command(0), 1))
	s = s.Intend(tier.Intent{Object: o, Next: 5}.Command(lineage), 1)
	require.True(t, s.Intends(o))
	other := tier.Object{Base: 0, Term: 1, Nonce: 2}
	require.False(t, s.Intend(tier.Intent{Object: other, Next: 5}.Command(lineage+1), 1).Intends(other))
	s = s.Remove(&persistv1.ColdRemoved{Objects: []*persistv1.ColdObject{o.Encode()}})
	require.Empty(t, s.Intents())
	require.Equal(t, uint64(lineage), s.Lineage())
	again, err := tier.Decode(s.Encode())
	require.NoError(t, err)
	require.Equal(t, s, again)
}

func TestEpochs(t *testing.T) {
	var s *tier.State
	add := func(base, next int64, epochs ...tier.Epoch) {
		o := tier.Object{Base: base, Term: 9, Nonce: uint64(base)}
		segment := tier.Segment{Object: o, Next: next, Size: 1, Epochs: epochs}
		s = s.Intend(tier.Intent{Object: o, Next: next}.Command(lineage), 9).Add(segment.Encode(), 9, 0)
	}
	add(0, 10, tier.Epoch{Term: 2, Start: 0}, tier.Epoch{Term: 4, Start: 6})
	add(10, 20, tier.Epoch{Term: 4, Start: 10}, tier.Epoch{Term: 7, Start: 15})
	require.Len(t, s.Segments(), 2)
	require.Equal(t, []tier.Epoch{{Term: 2, Start: 0}, {Term: 4, Start: 6}, {Term: 7, Start: 15}}, s.Epochs())
	for offset, want := range map[int64]int32{0: 2, 5: 2, 6: 4, 9: 4, 10: 4, 14: 4, 15: 7, 19: 7} {
		segment, ok := s.Find(offset)
		require.True(t, ok)
		require.Equal(t, want, segment.EpochAt(offset), offset)
	}
	_, ok := s.Find(20)
	require.False(t, ok)
}

// FuzzDecode reads the state of another replica: what makes no sense is refused,
// and what is taken encodes to the same.
func FuzzDecode(f *testing.F) {
	var s *tier.State
	o := tier.Object{Base: 3, Term: 2, Nonce: 1}
	s = s.Intend(tier.Intent{Object: o, Next: 9}.Command(lineage), 2)
	seed, err := proto.Marshal(s.Encode())
	require.NoError(f, err)
	f.Add(seed)
	seed, err = proto.Marshal(s.Add(segmentOf(o, 9), 2, 4).Encode())
	require.NoError(f, err)
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		var message persistv1.ColdState
		if proto.Unmarshal(b, &message) != nil {
			return
		}
		s, err := tier.Decode(&message)
		if err != nil {
			return
		}
		again, err := tier.Decode(s.Encode())
		require.NoError(t, err)
		require.Equal(t, s, again)
		for offset := range int64(12) {
			if segment, ok := s.Find(offset); ok {
				require.NotEqual(t, int32(-1), segment.EpochAt(offset), fmt.Sprint(offset))
			}
		}
		s.Start(5).Doomed(nil, 10)
	})
}
