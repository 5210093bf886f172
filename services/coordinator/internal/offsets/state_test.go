package offsets

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
)

// names are the groups of a test.
var names = []string{"", "a", "b"}

func drawRecord(t *rapid.T) shard.Record {
	p := partition{
		topic:  rows.TopicID{15: rapid.Byte().Filter(func(b byte) bool { return b < 3 }).Draw(t, "topic")},
		number: rapid.Int32Range(0, 2).Draw(t, "partition"),
	}
	r := shard.Record{Key: key(rapid.SampledFrom(names).Draw(t, "group"), p)}
	if rapid.Bool().Draw(t, "set") {
		r.Value = value(&coordinatorv1.CommittedOffset{Offset: rapid.Int64Range(0, 9).Draw(t, "offset")}, 1)
	}
	return r
}

func clone(s *State) *State {
	c := NewState()
	for group, offsets := range s.groups {
		c.groups[group] = maps.Clone(offsets)
	}
	return c
}

func equal(t *rapid.T, want, got *State, what string) {
	if diff := cmp.Diff(want.groups, got.groups, protocmp.Transform(), cmp.AllowUnexported(partition{})); diff != "" {
		t.Fatalf("%s: %s", what, diff)
	}
}

func TestUndoTakesBackAndOnlyTheLastRecordOfAKeyCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := NewState()
		log := rapid.SliceOf(rapid.Custom(drawRecord)).Draw(t, "log")
		for _, r := range log {
			state.Apply(r)
		}
		before := clone(state)
		var undos []func()
		for _, r := range rapid.SliceOf(rapid.Custom(drawRecord)).Draw(t, "failed") {
			undos = append(undos, state.Apply(r))
		}
		for _, undo := range slices.Backward(undos) {
			undo()
		}
		equal(t, before, state, "after the undos")

		// What compaction leaves of the log makes the same state.
		last := make(map[string]int)
		for i, r := range log {
			last[r.Key.String()] = i
		}
		compacted := NewState()
		for i, r := range log {
			if last[r.Key.String()] == i {
				compacted.Apply(r)
			}
		}
		equal(t, before, compacted, "of the compacted log")
	})
}

func TestRemovalsAreOfTheTopicsGivenAndLimited(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := NewState()
		for _, r := range rapid.SliceOf(rapid.Custom(drawRecord)).Draw(t, "log") {
			state.Apply(r)
		}
		gone := map[rows.TopicID]bool{{15: 1}: true}
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		for {
			records := state.without(gone, limit)
			if len(records) > limit {
				t.Fatalf("%d records", len(records))
			}
			for _, r := range records {
				if r.Value != nil || r.Key.GetGroupOffset().TopicId[15] != 1 {
					t.Fatalf("%v", r.Key)
				}
				state.Apply(r)
			}
			if len(records) < limit {
				break
			}
		}
		if state.topics()[rows.TopicID{15: 1}] {
			t.Fatal("something is left")
		}
	})
}
