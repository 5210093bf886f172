package view

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/kit/lease"
)

// rig is a picture that a test changes itself, revision by revision.
type rig struct {
	*testing.T
	*View
	revision int64
	keys     map[string]lease.Change
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, View: New(nil, slog.New(slog.DiscardHandler)), keys: map[string]lease.Change{}}
	r.apply(lease.Update{Snapshot: true, Revision: 1})
	r.revision = 1
	return r
}

func (r *rig) put(key string, row proto.Message) {
	r.Helper()
	value, err := proto.Marshal(row)
	require.NoError(r, err)
	r.revision++
	c := lease.Change{Key: key, Value: value, CreateRevision: r.revision, ModRevision: r.revision}
	if old, ok := r.keys[key]; ok {
		c.CreateRevision = old.CreateRevision
	}
	r.keys[key] = c
	r.apply(lease.Update{Revision: r.revision, Changes: []lease.Change{c}})
}

func (r *rig) del(key string) {
	r.revision++
	delete(r.keys, key)
	r.apply(lease.Update{Revision: r.revision, Changes: []lease.Change{{Key: key, Deleted: true, ModRevision: r.revision}}})
}

func id(n byte) rows.TopicID { return rows.TopicID{15: n} }

func (r *rig) topic(n byte, name string, partitions int) {
	r.Helper()
	assignments := make([][]string, partitions)
	for i := range assignments {
		assignments[i] = []string{"a", "b"}
	}
	topicID := id(n)
	row := &persistv1.TopicRow{Id: topicID[:], Name: name}
	row.Nodes, row.Partitions = rows.Partitions(assignments)
	r.put(rows.TopicKey(name), row)
}

func (r *rig) node(name string) {
	r.Helper()
	r.put(rows.NodeKey(name), &persistv1.NodeRow{Id: name, Roles: []string{RoleStorage}, Incarnation: fmt.Append(nil, r.revision)})
}

func report(n byte, leads map[int32]int32) *storagev1.WatchReplicasResponse_TopicReport {
	topicID := id(n)
	t := &storagev1.WatchReplicasResponse_TopicReport{TopicId: topicID[:]}
	for p, epoch := range leads {
		t.Partitions = append(t.Partitions, p)
		t.Leads = append(t.Leads, epoch > 0)
		t.Epochs = append(t.Epochs, max(epoch, -epoch))
	}
	return t
}

func reports(done bool, topics ...*storagev1.WatchReplicasResponse_TopicReport) *storagev1.WatchReplicasResponse {
	return &storagev1.WatchReplicasResponse{Topics: topics, SnapshotDone: done}
}

func next(t *testing.T, f *Feed) *coordinatorv1.WatchMetadataResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	m, err := f.Next(ctx)
	require.NoError(t, err)
	return m
}

func (r *rig) requireLeader(n byte, partition int32, node string, epoch int32) {
	r.Helper()
	gotNode, gotEpoch := r.Leader(id(n), partition)
	require.Equal(r, node, gotNode)
	require.Equal(r, epoch, gotEpoch)
}

func TestTheLeaderIsWhoClaimsTheHighestEpoch(t *testing.T) {
	r := newRig(t)
	r.node("a")
	r.node("b")
	r.topic(1, "orders", 3)
	a, b := r.Reporter("a"), r.Reporter("b")
	a.Report(reports(false, report(1, map[int32]int32{0: 5})))
	r.requireLeader(1, 0, "", -1) // not complete yet
	a.Report(reports(true, report(1, map[int32]int32{1: 2})))
	r.requireLeader(1, 0, "a", 5)
	b.Report(reports(true, report(1, map[int32]int32{0: 6, 1: -2, 2: -1})))
	r.requireLeader(1, 0, "b", 6) // a has not heard of its deposition
	r.requireLeader(1, 1, "a", 2)
	r.requireLeader(1, 2, "", 1)
	a.Report(reports(false, report(1, map[int32]int32{0: -6})))
	r.requireLeader(1, 0, "b", 6)

	// A stream that is restored replaces what the node said before, at once.
	b = r.Reporter("b")
	b.Report(reports(false, report(1, map[int32]int32{2: 3})))
	r.requireLeader(1, 0, "b", 6)
	b.Report(reports(true))
	r.requireLeader(1, 0, "", 6)
	r.requireLeader(1, 2, "b", 3)

	// A node that is gone leads nothing, and what it says late does not count.
	r.del(rows.NodeKey("b"))
	r.requireLeader(1, 2, "", -1)
	b.Report(reports(false, report(1, map[int32]int32{2: 9})))
	r.requireLeader(1, 2, "", -1)
}

func TestADamagedReplicaDoesNotLead(t *testing.T) {
	r := newRig(t)
	r.node("a")
	rep := report(1, map[int32]int32{0: 5})
	rep.Damaged = []bool{true}
	r.Reporter("a").Report(reports(true, rep))
	r.requireLeader(1, 0, "", 5)
}

func TestWildReportsDoNoHarm(t *testing.T) {
	r := newRig(t)
	r.node("a")
	topicID := id(1)
	r.Reporter("a").Report(reports(true,
		&storagev1.WatchReplicasResponse_TopicReport{TopicId: []byte("x"), Partitions: []int32{1}, Leads: []bool{true}},
		&storagev1.WatchReplicasResponse_TopicReport{TopicId: topicID[:], Partitions: []int32{-1, 1 << 30, 0, 1}, Leads: []bool{true, true, true}},
	))
	r.requireLeader(1, 0, "a", -1)
	r.requireLeader(1, 1, "", -1)
	r.requireLeader(1, -1, "", -1)
}

func TestAFeedBeginsWithEverythingAndGoesOnWithChanges(t *testing.T) {
	r := newRig(t)
	r.node("a")
	r.topic(1, "orders", 2)
	a := r.Reporter("a")
	a.Report(reports(true, report(1, map[int32]int32{0: 1, 1: 1})))
	r.put(rows.ShardKey(3), &persistv1.ShardRow{Node: "a"})

	f := r.Feed()
	m := next(t, f)
	require.True(t, m.Snapshot)
	require.Equal(t, r.revision, m.Revision)
	require.Len(t, m.Topics, 1)
	require.Len(t, m.Nodes, 1)
	require.Equal(t, []string{"a", "a"}, m.Leaders[0].Leaders)
	require.EqualValues(t, 3, m.Shards[0].Shard)
	require.Equal(t, r.revision, m.Shards[0].Epoch)

	// Several changes are one message, each thing as it is at the end.
	r.topic(2, "gone", 1)
	r.del(rows.TopicKey("gone"))
	r.topic(3, "new", 1)
	a.Report(reports(false, report(1, map[int32]int32{1: 4})))
	a.Report(reports(false, report(1, map[int32]int32{1: 5})))
	r.del(rows.ShardKey(3))
	m = next(t, f)
	require.False(t, m.Snapshot)
	require.Equal(t, r.revision, m.Revision)
	require.Len(t, m.Topics, 1)
	require.Equal(t, "new", m.Topics[0].Name)
	gone := id(2)
	require.Equal(t, [][]byte{gone[:]}, m.RemovedTopicIds)
	require.Len(t, m.Leaders, 1)
	require.Equal(t, []int32{1}, m.Leaders[0].Partitions, "only leaders that changed")
	require.Equal(t, []int32{5}, m.Leaders[0].Epochs)
	require.Len(t, m.Shards, 1)
	require.Empty(t, m.Shards[0].Node)
	require.Empty(t, m.Nodes)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.Next(ctx)
	require.ErrorIs(t, err, context.Canceled, "nothing is new")
}

func TestLeadersThatWereReportedBeforeTheTopicComeWithIt(t *testing.T) {
	r := newRig(t)
	r.node("a")
	f := r.Feed()
	next(t, f)
	a := r.Reporter("a")
	a.Report(reports(true))
	a.Report(reports(false, report(1, map[int32]int32{0: 1})))
	m := next(t, f)
	require.Empty(t, m.Leaders, "a topic that nobody knows has none")
	r.topic(1, "orders", 1)
	m = next(t, f)
	require.Len(t, m.Topics, 1)
	require.Equal(t, []string{"a"}, m.Leaders[0].Leaders)
}

func TestASlowFollowerGetsASnapshot(t *testing.T) {
	r := newRig(t)
	r.node("a")
	r.topic(1, "orders", 1000)
	a := r.Reporter("a")
	a.Report(reports(true))
	slow, quick := r.Feed(), r.Feed()
	next(t, slow)
	next(t, quick)
	for epoch := range int32(300) {
		leads := map[int32]int32{}
		for p := range int32(1000) {
			leads[p] = epoch + 1
		}
		a.Report(reports(false, report(1, leads)))
		require.False(t, next(t, quick).Snapshot)
	}
	require.LessOrEqual(t, r.mu.changes.weight, maxLogged)
	m := next(t, slow)
	require.True(t, m.Snapshot)
	require.EqualValues(t, 300, m.Leaders[0].Epochs[999])
}

func TestASnapshotOfEtcdIsOnlyWhatChanged(t *testing.T) {
	r := newRig(t)
	r.node("a")
	r.topic(1, "stays", 1)
	r.topic(2, "goes", 1)
	f := r.Feed()
	next(t, f)
	u := lease.Update{Snapshot: true, Revision: r.revision + 10}
	for key, c := range r.keys {
		if key != rows.TopicKey("goes") {
			u.Changes = append(u.Changes, c)
		}
	}
	r.apply(u)
	m := next(t, f)
	require.False(t, m.Snapshot)
	require.Empty(t, m.Topics)
	require.Len(t, m.RemovedTopicIds, 1)
	require.EqualValues(t, 1, r.Removals())
	require.Nil(t, r.Topic("goes"))
	require.NotNil(t, r.Topic("stays"))
}

func TestARowThatCannotBeReadChangesNothing(t *testing.T) {
	r := newRig(t)
	r.topic(1, "orders", 1)
	for _, key := range []string{
		rows.TopicKey("orders"), rows.TopicKey("other"), rows.NodeKey("n"), rows.Shards + "x", rows.Deleting + "zz", rows.ShardKey(1),
	} {
		r.revision++
		r.apply(lease.Update{Revision: r.revision, Changes: []lease.Change{{Key: key, Value: []byte{0xff}, ModRevision: r.revision}}})
	}
	require.NotNil(t, r.Topic("orders"))
	require.Equal(t, 1, r.TopicCount())
	require.Equal(t, r.revision, r.Revision())
}

func TestTheOldestCandidateIsElected(t *testing.T) {
	r := newRig(t)
	require.Empty(t, r.Elected())
	candidate := func(key, node string) {
		r.revision++
		r.apply(lease.Update{Revision: r.revision, Changes: []lease.Change{{
			Key: rows.Election + "/" + key, Value: []byte(node), CreateRevision: r.revision, ModRevision: r.revision,
		}}})
	}
	candidate("2", "a")
	candidate("1", "b")
	require.Equal(t, "a", r.Elected())
	r.del(rows.Election + "/2")
	require.Equal(t, "b", r.Elected())
}
