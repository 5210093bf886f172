// Package offsets keeps how far consumer groups have read. A group's offsets
// are in the shard that its name hashes to: one record for each partition, of
// which the last counts.
package offsets

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
)

// State is the committed offsets of the groups of one shard.
type State struct {
	// groups have at least one offset each.
	groups map[string]map[partition]*persistv1.GroupOffset
}

type partition struct {
	topic  rows.TopicID
	number int32
}

var _ shard.Machine = (*State)(nil)

// NewState returns the state of an empty log.
func NewState() *State {
	return &State{groups: make(map[string]map[partition]*persistv1.GroupOffset)}
}

// Apply sets or removes an offset.
func (s *State) Apply(r shard.Record) (undo func()) {
	key := r.Key.GetGroupOffset()
	if key == nil {
		return func() {} // of another part of the shard
	}
	id, _ := rows.ParseTopicID(key.TopicId)
	p := partition{topic: id, number: key.Partition}
	before := s.groups[key.Group][p]
	s.set(key.Group, p, r.Value.GetGroupOffset())
	return func() { s.set(key.Group, p, before) }
}

// set keeps an offset, or forgets it when it is nil.
func (s *State) set(group string, p partition, offset *persistv1.GroupOffset) {
	offsets := s.groups[group]
	if offset == nil {
		delete(offsets, p)
		if len(offsets) == 0 {
			delete(s.groups, group)
		}
		return
	}
	if offsets == nil {
		offsets = make(map[partition]*persistv1.GroupOffset)
		s.groups[group] = offsets
	}
	offsets[p] = offset
}

// Holds tells whether a group has committed anything.
func (s *State) Holds(group string) bool { return len(s.groups[group]) > 0 }

// topics returns the topics on which anything is committed.
func (s *State) topics() map[rows.TopicID]bool {
	topics := make(map[rows.TopicID]bool)
	for _, offsets := range s.groups {
		for p := range offsets {
			topics[p.topic] = true
		}
	}
	return topics
}

// without returns the records that remove all offsets on some topics, at most
// limit of them.
func (s *State) without(gone map[rows.TopicID]bool, limit int) []shard.Record {
	var records []shard.Record
	for group, offsets := range s.groups {
		for p := range maps.Keys(offsets) {
			if !gone[p.topic] {
				continue
			}
			if len(records) == limit {
				return records
			}
			records = append(records, shard.Record{Key: key(group, p)})
		}
	}
	return records
}

// of returns the records that remove a group's offsets, at most limit of them.
func (s *State) of(name string, limit int) []shard.Record {
	records := make([]shard.Record, 0, min(limit, len(s.groups[name])))
	for p := range s.groups[name] {
		if len(records) == limit {
			break
		}
		records = append(records, shard.Record{Key: key(name, p)})
	}
	return records
}

// on returns the groups that have committed on a topic, sorted.
func (s *State) on(topic rows.TopicID) []string {
	var names []string
	for name, offsets := range s.groups {
		for p := range offsets {
			if p.topic == topic {
				names = append(names, name)
				break
			}
		}
	}
	slices.Sort(names)
	return names
}

// moved returns the records that move a group's offsets on a topic to those
// given by partition, and how many there are. One that is there already needs no
// record, and one on a partition that is not given stays.
func (s *State) moved(name string, topic rows.TopicID, to []int64, now int64) (records []shard.Record, entries int64) {
	for p, offset := range s.groups[name] {
		if p.topic != topic || int(p.number) >= len(to) {
			continue
		}
		entries++
		if offset.Offset == to[p.number] {
			continue
		}
		set := proto.CloneOf(offset)
		// What was known of the old offset is not so of the new one.
		set.Offset, set.LeaderEpoch, set.Metadata, set.CommitTimeMs = to[p.number], -1, "", now
		records = append(records, shard.Record{
			Key:   key(name, p),
			Value: &persistv1.ShardValue{Kind: &persistv1.ShardValue_GroupOffset{GroupOffset: set}},
		})
	}
	return records, entries
}

func key(group string, p partition) *persistv1.ShardKey {
	return &persistv1.ShardKey{Kind: &persistv1.ShardKey_GroupOffset{GroupOffset: &persistv1.GroupOffsetKey{
		Group: group, TopicId: p.topic[:], Partition: p.number,
	}}}
}
