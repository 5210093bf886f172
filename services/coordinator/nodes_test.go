package coordinator_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/coordinator"
	"github.com/sluiceio/sluice/services/coordinator/internal/meta"
	"github.com/sluiceio/sluice/services/kit/lease"
)

func (p *process) forget(id string, force bool) ([]string, error) {
	resp, err := p.metadata.ForgetNode(p.Context(), &coordinatorv1.ForgetNodeRequest{NodeId: id, Force: force})
	return resp.GetLostTopics(), err
}

func (p *process) nodes() map[string]*coordinatorv1.ListNodesResponse_NodeState {
	p.Helper()
	resp, err := p.metadata.ListNodes(p.Context(), &coordinatorv1.ListNodesRequest{})
	require.NoError(p, err)
	nodes := map[string]*coordinatorv1.ListNodesResponse_NodeState{}
	for _, n := range resp.Nodes {
		nodes[n.Node.Id] = n
	}
	return nodes
}

// deleteTopic deletes a topic whose nodes are away.
func (p *process) deleteTopic(name string) {
	p.Helper()
	_, err := p.metadata.DeleteTopic(p.Context(), &coordinatorv1.DeleteTopicRequest{Name: name})
	require.NoError(p, err)
}

// A node that will not return is given up: no deletion waits for it, now or later,
// whoever leads, and it is not let in again.
func TestForgottenNode(t *testing.T) {
	c := newCluster(t)
	a, b := c.start("a", "coordinator"), c.start("b", "coordinator")
	s := c.start("s", "storage")
	gone, kept := a.create("gone", 2), a.create("kept", 3)
	eventually(t, func() bool { return s.storage.Topics()[coordinator.ShardTopic] != nil })

	_, err := a.forget("s", true)
	require.ErrorIs(t, err, meta.ErrNodeLive)
	_, err = a.forget("a", true)
	require.ErrorIs(t, err, meta.ErrNodeLive)
	_, err = b.forget("nobody", true)
	require.ErrorIs(t, err, meta.ErrNodeNotFound)
	_, err = b.forget("", true)
	require.ErrorIs(t, err, meta.ErrNodeNotFound)

	s.stop()
	eventually(t, func() bool { return !a.nodes()["s"].GetLive() })
	a.deleteTopic("gone")
	require.EqualValues(t, 1, c.count(fmt.Sprintf("/sluice/deleting/%x", gone.Id)))
	state := b.nodes()["s"]
	require.EqualValues(t, 3+4, state.Replicas)
	require.EqualValues(t, 1, state.DeletingTopics)
	require.False(t, state.Forgotten)

	_, err = b.forget("s", false)
	require.ErrorIs(t, err, meta.ErrOnlyReplica)
	require.ErrorContains(t, err, "kept")
	require.ErrorContains(t, err, coordinator.ShardTopic)
	require.EqualValues(t, 0, c.count("/sluice/forgotten/"))
	require.EqualValues(t, 1, c.count("/sluice/deleting/"))

	for range 2 {
		lost, err := b.forget("s", true)
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"kept", coordinator.ShardTopic}, lost, "again it says the same")
	}
	eventually(t, func() bool { return c.count("/sluice/deleting/") == 0 })
	require.True(t, a.nodes()["s"].GetForgotten())

	session := lease.NewSession(c.etcd, lease.Config{
		TTL: c.ttl, Identity: coordinator.NodeKey("s"), Bar: coordinator.ForgottenNodeKey("s"),
	})
	require.ErrorIs(t, session.Run(t.Context()), lease.ErrBarred)

	// Another leader knows of it, too.
	a.stop()
	eventually(t, func() bool {
		_, err := b.metadata.DeleteTopic(t.Context(), &coordinatorv1.DeleteTopicRequest{Name: "kept"})
		return err == nil
	})
	eventually(t, func() bool { return c.count(fmt.Sprintf("/sluice/deleting/%x", kept.Id)) == 0 })
}

// A node that has nothing that others lack goes without force, also while nobody
// answers for it; a deletion that began before the leader was elected goes on.
func TestForgottenNodeWithNothingToLose(t *testing.T) {
	c := newCluster(t)
	first := c.start("first", "storage")
	a := c.start("a", "coordinator")
	eventually(t, func() bool { return first.storage.Topics()[coordinator.ShardTopic] != nil })
	s := c.start("s", "storage")
	require.True(t, a.nodes()["s"].GetLive())
	// The least loaded node gets it.
	a.create("gone", 1)
	eventually(t, func() bool { return s.storage.Topics()["gone"] != nil })
	s.stop()
	eventually(t, func() bool { return !a.nodes()["s"].GetLive() })
	a.deleteTopic("gone")
	a.stop()
	b := c.start("b", "coordinator")
	eventually(t, func() bool {
		lost, err := b.forget("s", false)
		return err == nil && len(lost) == 0
	})
	eventually(t, func() bool { return c.count("/sluice/deleting/") == 0 })
	require.NotContains(t, b.nodes(), "s", "nothing is left of it")
	b.create("orders", 2)
}

// A registration and a decommission at the same time: one of them holds.
func TestForgettingMeetsARegistration(t *testing.T) {
	c := newCluster(t)
	a := c.start("a", "coordinator")
	s := c.start("s", "storage")
	a.create("orders", 1)
	for range 10 {
		s.stop()
		eventually(t, func() bool { return !a.nodes()["s"].GetLive() })
		session := lease.NewSession(c.etcd, lease.Config{
			TTL: c.ttl, Identity: coordinator.NodeKey("s"), Bar: coordinator.ForgottenNodeKey("s"),
		})
		session.Register(coordinator.NodeKey("s"), []byte{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- session.Run(ctx) }()
		_, err := a.forget("s", true)
		if err != nil {
			require.ErrorIs(t, err, meta.ErrNodeLive)
			require.NoError(t, session.Flush(t.Context()))
			cancel()
			require.NoError(t, <-ended)
		} else {
			require.ErrorIs(t, <-ended, lease.ErrBarred)
			cancel()
		}
		_, err = c.etcd.Delete(t.Context(), coordinator.ForgottenNodeKey("s"))
		require.NoError(t, err)
	}
}
