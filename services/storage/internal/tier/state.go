package tier

import (
	"errors"
	"slices"
	"sort"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
)

// State is what a partition knows of its objects. A state is never changed: what
// would change it returns another. Nil is the state without any object.
//
// The segments touch, each beginning where the one before ends. The first begins
// at or below the partition's start offset and every one ends above it, so they
// hold all from the start offset to their end. No object is named twice.
type State struct {
	// lineage names the history that the log is of; never zero.
	lineage  uint64
	segments []Segment
	intents  []Intent
	garbage  []Object
	// bytes is the sum of the segments' sizes.
	bytes int64
}

// Intent is an object that may be there and is no segment. It is to hold the
// offsets [Base, Next).
type Intent struct {
	Object
	Next int64
}

// Command is the command that names the object.
func (i Intent) Command(lineage uint64) *persistv1.ColdIntent {
	return &persistv1.ColdIntent{Object: i.Object.Encode(), NextOffset: i.Next, Lineage: lineage}
}

func decodeIntent(p *persistv1.ColdIntent) Intent {
	return Intent{Object: decodeObject(p.GetObject()), Next: p.GetNextOffset()}
}

// clone is a copy to be changed.
func (s *State) clone() *State {
	if s == nil {
		return &State{}
	}
	return &State{
		lineage:  s.lineage,
		segments: slices.Clone(s.segments), intents: slices.Clone(s.intents), garbage: slices.Clone(s.garbage),
		bytes: s.bytes,
	}
}

// settled is what a changed state is to be: empty lists are nil, whatever they went
// through, so that states can be compared.
func (s *State) settled() *State {
	if len(s.segments) == 0 {
		s.segments = nil
	}
	if len(s.intents) == 0 {
		s.intents = nil
	}
	if len(s.garbage) == 0 {
		s.garbage = nil
	}
	return s
}

// Intend applies an intent of an entry's term.
func (s *State) Intend(p *persistv1.ColdIntent, term uint64) *State {
	i, lineage := decodeIntent(p), p.GetLineage()
	switch {
	case !i.valid() || i.Next <= i.Base || i.Term != term || s.names(i.Object):
		return s
	case lineage == 0 || s != nil && s.lineage != lineage:
		return s
	}
	changed := s.clone()
	changed.lineage = lineage
	changed.intents = append(changed.intents, i)
	return changed
}

// Add applies the end of an upload, from an entry of a term, at a start offset. If
// it does not count the object stays an intent, to be deleted.
func (s *State) Add(p *persistv1.ColdSegment, term uint64, start int64) *State {
	added := decodeSegment(p)
	if !added.valid() || added.Term != term {
		return s
	}
	at := -1
	if s != nil {
		at = slices.Index(s.intents, Intent{Object: added.Object, Next: added.Next})
	}
	switch {
	case at < 0:
		return s
	case len(s.segments) > 0 && added.Base != s.End(start):
		return s
	case len(s.segments) == 0 && (added.Base > start || added.Next <= start):
		return s
	}
	changed := s.clone()
	changed.intents = slices.Delete(changed.intents, at, at+1)
	changed.segments = append(changed.segments, added)
	changed.bytes += added.Size
	return changed.settled()
}

// Remove applies that objects were deleted. Segments are not touched.
func (s *State) Remove(p *persistv1.ColdRemoved) *State {
	if s == nil {
		return nil
	}
	gone := map[Object]bool{}
	for _, o := range p.GetObjects() {
		gone[decodeObject(o)] = true
	}
	changed := s.clone()
	changed.intents = slices.DeleteFunc(changed.intents, func(i Intent) bool { return gone[i.Object] })
	changed.garbage = slices.DeleteFunc(changed.garbage, func(o Object) bool { return gone[o] })
	return changed.settled()
}

// Start applies a start offset: the segments below it become garbage.
func (s *State) Start(start int64) *State {
	if s == nil {
		return nil
	}
	n := sort.Search(len(s.segments), func(i int) bool { return s.segments[i].Next > start })
	if n == 0 {
		return s
	}
	changed := s.clone()
	for _, below := range changed.segments[:n] {
		changed.garbage = append(changed.garbage, below.Object)
		changed.bytes -= below.Size
	}
	changed.segments = slices.Clone(changed.segments[n:])
	return changed.settled()
}

// Lineage names the history that the log is of, zero before the first intent.
func (s *State) Lineage() uint64 {
	if s == nil {
		return 0
	}
	return s.lineage
}

// Intends tells whether an object is an intent.
func (s *State) Intends(o Object) bool {
	return slices.ContainsFunc(s.Intents(), func(i Intent) bool { return i.Object == o })
}

// Segments are those in cold storage. The slice must not be changed.
func (s *State) Segments() []Segment {
	if s == nil {
		return nil
	}
	return s.segments
}

// Intents are the objects that may be there and are no segments. The slice must
// not be changed.
func (s *State) Intents() []Intent {
	if s == nil {
		return nil
	}
	return s.intents
}

// Garbage are the objects that were segments. The slice must not be changed.
func (s *State) Garbage() []Object {
	if s == nil {
		return nil
	}
	return s.garbage
}

// Bytes is the sum of the segments' sizes.
func (s *State) Bytes() int64 {
	if s == nil {
		return 0
	}
	return s.bytes
}

// End is the offset after the last in cold storage; the start offset if there is
// none.
func (s *State) End(start int64) int64 {
	if s == nil || len(s.segments) == 0 {
		return start
	}
	return s.segments[len(s.segments)-1].Next
}

// Find finds the segment with an offset.
func (s *State) Find(offset int64) (Segment, bool) {
	segments := s.Segments()
	i := sort.Search(len(segments), func(i int) bool { return segments[i].Next > offset })
	if i == len(segments) || segments[i].Base > offset {
		return Segment{}, false
	}
	return segments[i], true
}

// Epochs are the leader epochs of the segments, ascending in term and start.
func (s *State) Epochs() []Epoch {
	var all []Epoch
	for _, segment := range s.Segments() {
		for _, e := range segment.Epochs {
			if len(all) == 0 || all[len(all)-1].Term < e.Term {
				all = append(all, e)
			}
		}
	}
	return all
}

// names tells whether the state has an object, as whatever.
func (s *State) names(o Object) bool {
	if s == nil {
		return false
	}
	return slices.Contains(s.garbage, o) ||
		slices.ContainsFunc(s.intents, func(i Intent) bool { return i.Object == o }) ||
		slices.ContainsFunc(s.segments, func(x Segment) bool { return x.Object == o })
}

// Encode is the state as points and snapshots have it; nil for none.
func (s *State) Encode() *persistv1.ColdState {
	if s == nil {
		return nil
	}
	out := &persistv1.ColdState{Lineage: s.lineage}
	for i := range s.segments {
		out.Segments = append(out.Segments, s.segments[i].Encode())
	}
	for _, i := range s.intents {
		out.Intents = append(out.Intents, i.Command(0))
	}
	for _, o := range s.garbage {
		out.Garbage = append(out.Garbage, o.Encode())
	}
	return out
}

// errBadState is what a decoded state is that breaks what holds for states.
var errBadState = errors.New("cold state makes no sense")

// Decode takes over what Encode gave, here or on another replica.
func Decode(p *persistv1.ColdState) (*State, error) {
	if p == nil {
		return nil, nil
	}
	s := &State{lineage: p.GetLineage()}
	if s.lineage == 0 {
		return nil, errBadState
	}
	named := map[Object]bool{}
	for _, encoded := range p.GetSegments() {
		segment := decodeSegment(encoded)
		if n := len(s.segments); !segment.valid() || named[segment.Object] || n > 0 && s.segments[n-1].Next != segment.Base {
			return nil, errBadState
		}
		named[segment.Object] = true
		s.segments = append(s.segments, segment)
		s.bytes += segment.Size
	}
	for _, encoded := range p.GetIntents() {
		i := decodeIntent(encoded)
		if !i.valid() || i.Next <= i.Base || named[i.Object] {
			return nil, errBadState
		}
		named[i.Object] = true
		s.intents = append(s.intents, i)
	}
	for _, encoded := range p.GetGarbage() {
		o := decodeObject(encoded)
		if !o.valid() || named[o] {
			return nil, errBadState
		}
		named[o] = true
		s.garbage = append(s.garbage, o)
	}
	return s.settled(), nil
}
