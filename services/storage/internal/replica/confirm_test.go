package replica_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// question is a Confirm and what became of it.
type question struct {
	answered bool
	err      error
}

func (s *sim) question(n *simNode) *question {
	q := &question{}
	n.r.Confirm(func(err error) { q.answered, q.err = true, err })
	s.after(n)
	return q
}

// An answer that was given before a read came says nothing to it: who gave it may
// have gone on to another leader since.
func TestReadIsNotConfirmedByAnEarlierAnswer(t *testing.T) {
	s := newSim(t, 1, 3)
	old, other := s.nodes[0], s.nodes[2]
	everything := func(*raftpb.Message) bool { return true }
	s.campaign(old)
	s.drain(everything)
	require.NoError(t, s.ask(old, &replica.Proposal{OwnerEpoch: replica.NoOwner, Batches: [][]byte{s.batch(1, 1)}}))

	first := s.question(old)
	var late []simMessage
	s.drainAs(func(m simMessage) bool {
		if m.message.Raft.GetType() == raftpb.MsgHeartbeatResp {
			late = append(late, m)
			return false
		}
		return true
	})
	require.Len(t, late, 2)
	s.campaign(other)
	apart := func(m simMessage) bool { return m.to != old.id && m.message.Raft.GetFrom() != old.id }
	s.drainAs(apart)
	require.True(t, other.r.View().Serves)
	require.True(t, old.r.View().Serves, "it has not heard of the other")
	acked := false
	require.NoError(t, other.r.Propose([]*replica.Proposal{{
		OwnerEpoch: replica.NoOwner, Batches: [][]byte{s.batch(2, 1)},
		Done: func(result replica.Result) { acked = result.Err == nil },
	}}))
	s.after(other)
	s.drainAs(apart)
	require.True(t, acked)

	second := s.question(old)
	for _, m := range late {
		s.receive(m)
	}
	require.True(t, first.answered)
	require.NoError(t, first.err, "it led when it was asked")
	require.False(t, second.answered)
	for range 2 { // a heartbeat
		require.NoError(t, other.r.Tick())
		s.after(other)
		s.drain(everything)
	}
	require.True(t, second.answered)
	require.ErrorIs(t, second.err, replica.ErrNotLeader)
}

// A sole replica is current by itself, before it leads, too.
func TestSoleReplicaAsksNobody(t *testing.T) {
	s := newSim(t, 1, 1)
	n := s.nodes[0]
	asked := false
	n.r.Confirm(func(err error) {
		require.NoError(t, err)
		asked = true
	})
	require.True(t, asked)
	require.False(t, n.r.View().Serves)
}

// Whatever ends a replica's leadership, or the replica, answers what waits.
func TestReadsAreAnsweredWhenLeadershipGoes(t *testing.T) {
	s := newSim(t, 1, 3)
	n := s.nodes[0]
	refused := s.question(n)
	require.ErrorIs(t, refused.err, replica.ErrNotLeader)
	s.campaign(n)
	s.drain(func(*raftpb.Message) bool { return true })

	waits := s.question(n)
	require.False(t, waits.answered)
	for range 25 { // nobody answers, so it steps down
		require.NoError(t, n.r.Tick())
		s.after(n)
	}
	require.True(t, waits.answered)
	require.ErrorIs(t, waits.err, replica.ErrNotLeader)

	s.wire = nil
	s.campaign(n)
	s.drain(func(*raftpb.Message) bool { return true })
	waits = s.question(n)
	require.False(t, waits.answered)
	require.NoError(t, n.r.Stop())
	require.ErrorIs(t, waits.err, replica.ErrStopped)
	n.r.Confirm(func(err error) { require.ErrorIs(t, err, replica.ErrStopped) })
}
