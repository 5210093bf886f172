package clustertest

import (
	"context"
	"slices"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// AddAway adds a node that is not there and has the only replica of topics.
func (c *Coordinator) AddAway(node string, topics ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.away == nil {
		c.mu.away = make(map[string][]string)
	}
	c.mu.away[node] = topics
}

// ListNodes returns the nodes that are there and then those that are not.
func (c *Coordinator) ListNodes(context.Context, *coordinatorv1.ListNodesRequest) (*coordinatorv1.ListNodesResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.failLocked(); err != nil {
		return nil, err
	}
	resp := &coordinatorv1.ListNodesResponse{}
	for _, n := range c.mu.nodes {
		resp.Nodes = append(resp.Nodes, &coordinatorv1.ListNodesResponse_NodeState{Node: n, Live: true})
	}
	for id, topics := range c.mu.away {
		resp.Nodes = append(resp.Nodes, &coordinatorv1.ListNodesResponse_NodeState{
			Node: &coordinatorv1.Node{Id: id}, Replicas: int64(len(topics)), DeletingTopics: 1,
		})
	}
	return resp, nil
}

// ForgetNode gives up a node that is not there.
func (c *Coordinator) ForgetNode(_ context.Context, req *coordinatorv1.ForgetNodeRequest) (*coordinatorv1.ForgetNodeResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.failLocked(); err != nil {
		return nil, err
	}
	topics, away := c.mu.away[req.NodeId]
	switch {
	case slices.ContainsFunc(c.mu.nodes, func(n *coordinatorv1.Node) bool { return n.Id == req.NodeId }):
		return nil, errs.New(errs.Aborted, "NODE_LIVE", "node %q is there", req.NodeId)
	case !away:
		return nil, errs.New(errs.NotFound, "NODE_NOT_FOUND", "node %q is not known", req.NodeId)
	case len(topics) > 0 && !req.Force:
		return nil, errs.New(errs.Aborted, "ONLY_REPLICA", "node %q has the only replica of partitions of %v", req.NodeId, topics)
	}
	delete(c.mu.away, req.NodeId)
	return &coordinatorv1.ForgetNodeResponse{LostTopics: topics}, nil
}
