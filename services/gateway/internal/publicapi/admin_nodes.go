package publicapi

import (
	"context"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
)

// ListNodes returns the nodes of the cluster.
func (s *adminService) ListNodes(ctx context.Context, _ *adminv1.ListNodesRequest) (*adminv1.ListNodesResponse, error) {
	states, err := s.backend.Nodes(ctx, callerOf(ctx))
	if err != nil {
		return nil, err
	}
	resp := &adminv1.ListNodesResponse{}
	for _, n := range states {
		resp.Nodes = append(resp.Nodes, &adminv1.Node{
			Id: n.GetNode().GetId(), Roles: n.GetNode().GetRoles(), Rack: n.GetNode().GetRack(),
			Live: n.GetLive(), Forgotten: n.GetForgotten(), Replicas: n.GetReplicas(), DeletingTopics: n.GetDeletingTopics(),
		})
	}
	return resp, nil
}

// ForgetNode gives up a node.
func (s *adminService) ForgetNode(ctx context.Context, req *adminv1.ForgetNodeRequest) (*adminv1.ForgetNodeResponse, error) {
	if req.GetNodeId() == "" {
		return nil, missing("node_id")
	}
	lost, err := s.backend.ForgetNode(ctx, callerOf(ctx), req.GetNodeId(), req.GetForce())
	if err != nil {
		return nil, err
	}
	return &adminv1.ForgetNodeResponse{LostTopics: lost}, nil
}
