// Package offsets keeps how far consumer groups have read. A group's offsets
// are in the shard that its name hashes to: one record for each partition, of
// which the last counts.
package offsets

import (
	"maps"

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
func NewState(int32) *State {
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

func key(group string, p partition) *persistv1.ShardKey {
	return &persistv1.ShardKey{Kind: &persistv1.ShardKey_GroupOffset{GroupOffset: &persistv1.GroupOffsetKey{
		Group: group, TopicId: p.topic[:], Partition: p.number,
	}}}
}
