package backend

import (
	"context"

	"google.golang.org/grpc"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
)

// Nodes returns the nodes of the cluster by id, those that are away and have
// replicas, too.
func (b *Backend) Nodes(ctx context.Context, caller grants.Caller) ([]*coordinatorv1.ListNodesResponse_NodeState, error) {
	if err := caller.Admin(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	var resp *coordinatorv1.ListNodesResponse
	err := b.metadata(ctx, func(c coordinatorv1.MetadataServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.ListNodes(ctx, &coordinatorv1.ListNodesRequest{}, opts...)
		return err
	})
	return resp.GetNodes(), err
}

// ForgetNode gives up a node that will not return, with force also the partitions
// of which it has the only replica. It returns the topics of those.
func (b *Backend) ForgetNode(ctx context.Context, caller grants.Caller, id string, force bool) (lost []string, err error) {
	if err := caller.Admin(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	var resp *coordinatorv1.ForgetNodeResponse
	err = b.metadata(ctx, func(c coordinatorv1.MetadataServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.ForgetNode(ctx, &coordinatorv1.ForgetNodeRequest{NodeId: id, Force: force}, opts...)
		return err
	})
	return resp.GetLostTopics(), err
}
