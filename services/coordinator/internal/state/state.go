// Package state is all that one shard of the coordinator keeps, put together of
// the parts that different packages are about.
package state

import (
	"time"

	"github.com/sluiceio/sluice/services/coordinator/internal/group"
	"github.com/sluiceio/sluice/services/coordinator/internal/offsets"
	"github.com/sluiceio/sluice/services/coordinator/internal/producers"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
)

// State is the state of one shard. Each part takes the records that are its own.
type State struct {
	Groups    *group.State
	Offsets   *offsets.State
	Producers *producers.State
}

var _ shard.Timed = (*State)(nil)

// New puts the parts together: a group stays as long as it has offsets.
func New(groups *group.State, committed *offsets.State, ids *producers.State) *State {
	groups.ExpireUnless(committed.Holds)
	return &State{Groups: groups, Offsets: committed, Producers: ids}
}

// Apply gives a record to every part.
func (s *State) Apply(r shard.Record) (undo func()) {
	undoGroups, undoOffsets, undoProducers := s.Groups.Apply(r), s.Offsets.Apply(r), s.Producers.Apply(r)
	return func() {
		undoProducers()
		undoOffsets()
		undoGroups()
	}
}

// timed are the parts that time changes.
func (s *State) timed() []shard.Timed { return []shard.Timed{s.Groups, s.Producers} }

// Due returns what is due in the parts that time changes.
func (s *State) Due(now time.Time) []shard.Record {
	var records []shard.Record
	for _, part := range s.timed() {
		if next := part.NextDue(); !next.IsZero() && !next.After(now) {
			records = append(records, part.Due(now)...)
		}
	}
	return records
}

// NextDue returns when the first of them has something to do.
func (s *State) NextDue() time.Time {
	var first time.Time
	for _, part := range s.timed() {
		if next := part.NextDue(); !next.IsZero() && (first.IsZero() || next.Before(first)) {
			first = next
		}
	}
	return first
}

// OfProducers is the part that package producers is about.
func (s *State) OfProducers() *producers.State { return s.Producers }

// OfGroups is the part that package group is about.
func (s *State) OfGroups() *group.State { return s.Groups }

// OfOffsets is the part that package offsets is about: offsets belong to groups.
func (s *State) OfOffsets() offsets.Held { return offsets.Held{Groups: s.Groups, Offsets: s.Offsets} }
