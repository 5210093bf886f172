package replica_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// A proposal is answered whatever happens to the log under the replica: a caller
// waits for it, and its bytes count against the node's memory until then.
func TestProposalIsAnsweredByALogThatIsClosed(t *testing.T) {
	s := newSim(t, 1, 1)
	n := s.nodes[0]
	require.NoError(t, n.r.Campaign())
	require.NoError(t, n.r.Run())
	require.True(t, n.r.View().Serves)
	require.NoError(t, n.log.Close(nil))

	answered := 0
	_ = n.r.Propose([]*replica.Proposal{{
		Batches: [][]byte{s.batch(1, 1)}, OwnerEpoch: replica.NoOwner,
		Done: func(result replica.Result) {
			answered++
			require.Error(t, result.Err)
		},
	}})
	if answered == 0 {
		require.Error(t, n.r.Run())
	}
	require.Equal(t, 1, answered)
}

// A panic before raft has seen the proposals ends the replica, and answers each of
// them once.
func TestPanicInAProposalAnswersAllOnce(t *testing.T) {
	s := newSim(t, 1, 1)
	n := s.nodes[0]
	s.campaign(n)
	require.NoError(t, s.ask(n, &replica.Proposal{OwnerEpoch: replica.NoOwner, Command: fenceOf(3)}))
	answers := make([][]error, 5)
	var proposals []*replica.Proposal
	for i := range answers {
		p := &replica.Proposal{
			Batches: [][]byte{s.batch(1, 1)}, OwnerEpoch: replica.NoOwner,
			Done: func(result replica.Result) { answers[i] = append(answers[i], result.Err) },
		}
		switch i {
		case 1:
			p.OwnerEpoch = 1 // fenced
		case 3:
			p.Producer = &replica.Sequenced{} // says nothing of its batches
		}
		proposals = append(proposals, p)
	}
	require.ErrorContains(t, n.r.Propose(proposals), "panic")
	require.ErrorContains(t, n.r.Err(), "panic")
	for i, got := range answers {
		require.Len(t, got, 1, "proposal %d", i)
		require.Error(t, got[0])
	}
	require.ErrorAs(t, answers[1][0], new(*replica.FencedError))
	require.NotErrorIs(t, answers[4][0], replica.ErrUnknownOutcome, "nothing of it was appended")
	require.Error(t, n.r.Run())
}

// A fence that raft dropped fences nobody: it is not in the log, and whoever
// proposed it was told so.
func TestFenceThatIsDroppedFencesNobody(t *testing.T) {
	s := newSim(t, 1, 3)
	leader := s.nodes[0]
	s.campaign(leader)
	s.drain(func(*raftpb.Message) bool { return true })
	require.True(t, leader.r.View().Serves)
	fence := func(epoch int64) error {
		return s.ask(leader, &replica.Proposal{OwnerEpoch: replica.NoOwner, Command: fenceOf(epoch)})
	}
	write := func(epoch int64) error {
		return s.ask(leader, &replica.Proposal{OwnerEpoch: epoch, Batches: [][]byte{s.batch(1, 1)}})
	}
	require.NoError(t, fence(3))

	leader.r.TransferLeader(2)
	s.after(leader)
	// The other never hears that it is to lead.
	s.drain(func(m *raftpb.Message) bool { return m.GetType() != raftpb.MsgTimeoutNow })
	require.ErrorIs(t, fence(7), replica.ErrNotLeader)
	for range 10 { // the transfer is given up
		require.NoError(t, leader.r.Tick())
		s.after(leader)
		s.drain(func(*raftpb.Message) bool { return true })
	}
	require.True(t, leader.r.View().Serves)
	require.NoError(t, write(5))
	var fenced *replica.FencedError
	require.ErrorAs(t, write(2), &fenced)
	require.Equal(t, int64(3), fenced.Fence)
}

func fenceOf(epoch int64) *persistv1.Command {
	return &persistv1.Command{Kind: &persistv1.Command_Fence{Fence: &persistv1.Fence{OwnerEpoch: epoch}}}
}

// ask proposes, lets everything happen that follows, and returns the answer.
func (s *sim) ask(n *simNode, p *replica.Proposal) (err error) {
	err = errors.New("not answered")
	p.Done = func(result replica.Result) { err = result.Err }
	require.NoError(s.t, n.r.Propose([]*replica.Proposal{p}))
	s.after(n)
	s.drain(func(*raftpb.Message) bool { return true })
	return err
}

// drain delivers what is on the wire, and what comes of it, but what is lost.
func (s *sim) drain(arrives func(*raftpb.Message) bool) {
	s.drainAs(func(m simMessage) bool { return arrives(m.message.Raft) })
}

func (s *sim) drainAs(arrives func(simMessage) bool) {
	for len(s.wire) > 0 {
		m := s.wire[0]
		s.wire = s.wire[1:]
		if arrives(m) {
			s.receive(m)
		}
	}
}
