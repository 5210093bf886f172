package group

import (
	"slices"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/assign"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
)

func groupRecord(name, owner string, generation int64) shard.Record {
	return shard.Record{
		Key: &persistv1.ShardKey{Kind: &persistv1.ShardKey_Group{Group: &persistv1.GroupKey{Group: name}}},
		Value: &persistv1.ShardValue{Kind: &persistv1.ShardValue_Group{Group: &persistv1.Group{
			GroupType: persistv1.GroupType_GROUP_TYPE_SLUICE, Owner: owner, Generation: generation,
		}}},
	}
}

// idleRecord notes since when a group has nothing left to keep, 0 that it has.
func idleRecord(name string, g *group, sinceMs int64) shard.Record {
	r := groupRecord(name, g.owner, g.generation)
	r.Value.GetGroup().IdleSinceMs = sinceMs
	return r
}

// groupGone removes the record of a group.
func groupGone(name string) shard.Record {
	return shard.Record{Key: &persistv1.ShardKey{Kind: &persistv1.ShardKey_Group{Group: &persistv1.GroupKey{Group: name}}}}
}

// floorRecord has the generations of new groups begin somewhere.
func floorRecord(generation int64) shard.Record {
	return shard.Record{
		Key:   &persistv1.ShardKey{Kind: &persistv1.ShardKey_GroupFloor{GroupFloor: &persistv1.GroupFloorKey{}}},
		Value: &persistv1.ShardValue{Kind: &persistv1.ShardValue_GroupFloor{GroupFloor: &persistv1.GroupFloor{Generation: generation}}},
	}
}

// memberRecord puts a member, or removes it when m is nil.
func memberRecord(name, id string, m *member) shard.Record {
	r := shard.Record{Key: &persistv1.ShardKey{Kind: &persistv1.ShardKey_GroupMember{
		GroupMember: &persistv1.GroupMemberKey{Group: name, MemberId: id},
	}}}
	if m != nil {
		value := &persistv1.GroupMember{Owner: m.owner, TopicIds: make([][]byte, len(m.topics))}
		for i := range m.topics {
			value.TopicIds[i] = m.topics[i][:]
		}
		r.Value = &persistv1.ShardValue{Kind: &persistv1.ShardValue_GroupMember{GroupMember: value}}
	}
	return r
}

// decodeMember returns nil for nil. Ids that are none were never written.
func decodeMember(value *persistv1.GroupMember) *member {
	if value == nil {
		return nil
	}
	m := &member{owner: value.Owner}
	for _, b := range value.TopicIds {
		if id, ok := rows.ParseTopicID(b); ok {
			m.topics = append(m.topics, id)
		}
	}
	return m
}

// shareRecord puts a member's partitions, or removes the record when there are
// none.
func shareRecord(name, id string, share assign.Partitions) shard.Record {
	r := shard.Record{Key: &persistv1.ShardKey{Kind: &persistv1.ShardKey_GroupAssignment{
		GroupAssignment: &persistv1.GroupMemberKey{Group: name, MemberId: id},
	}}}
	if len(share) > 0 {
		r.Value = &persistv1.ShardValue{Kind: &persistv1.ShardValue_GroupAssignment{GroupAssignment: encodeShare(share)}}
	}
	return r
}

func encodeShare(share assign.Partitions) *persistv1.GroupAssignment {
	value := &persistv1.GroupAssignment{}
	for _, id := range share.Topics() {
		topic := &persistv1.GroupAssignment_TopicPartitions{TopicId: id[:]}
		next := int32(0)
		for list := share[id]; len(list) > 0; {
			n := 1
			for n < len(list) && list[n] == list[0]+int32(n) {
				n++
			}
			topic.Runs = append(topic.Runs, uint32(list[0]-next), uint32(n))
			next = list[0] + int32(n)
			list = list[n:]
		}
		value.Topics = append(value.Topics, topic)
	}
	return value
}

// maxPartition is above every partition that there can be; what a record says
// beyond it is not believed, nor memory spent on it.
const maxPartition = 1 << 20

func decodeShare(value *persistv1.GroupAssignment) assign.Partitions {
	share := make(assign.Partitions, len(value.GetTopics()))
	for _, topic := range value.GetTopics() {
		id, ok := rows.ParseTopicID(topic.TopicId)
		if !ok {
			continue
		}
		var list []int32
		next := uint64(0)
		for run := range slices.Chunk(topic.Runs, 2) {
			if len(run) < 2 || next+uint64(run[0])+uint64(run[1]) > maxPartition {
				break
			}
			next += uint64(run[0])
			for range run[1] {
				list = append(list, int32(next))
				next++
			}
		}
		if len(list) > 0 {
			share[id] = list
		}
	}
	return share
}
