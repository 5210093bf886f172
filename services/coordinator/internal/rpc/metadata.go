// Package rpc answers the calls of other services: it decodes, calls, and
// encodes, and holds no rule.
package rpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/cluster"
	"github.com/sluiceio/sluice/services/coordinator/internal/meta"
	"github.com/sluiceio/sluice/services/coordinator/internal/peer"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/view"
)

// Metadata serves MetadataService. Changes are passed on to the elected
// coordinator, so that a gateway may ask any.
type Metadata struct {
	coordinatorv1.UnimplementedMetadataServiceServer

	node    string
	cluster *cluster.Cluster
	store   *meta.Store
	view    *view.View
	peers   *peer.Peers
}

// NewMetadata returns the service of a node.
func NewMetadata(node string, c *cluster.Cluster, store *meta.Store, v *view.View, peers *peer.Peers) *Metadata {
	return &Metadata{node: node, cluster: c, store: store, view: v, peers: peers}
}

// CreateTopic makes a topic.
func (m *Metadata) CreateTopic(ctx context.Context, req *coordinatorv1.CreateTopicRequest) (*coordinatorv1.CreateTopicResponse, error) {
	if !m.cluster.Leads() {
		return forward(ctx, m, req, coordinatorv1.MetadataServiceClient.CreateTopic)
	}
	topic, err := m.cluster.CreateTopic(ctx, req)
	if err != nil {
		return nil, err
	}
	return &coordinatorv1.CreateTopicResponse{Topic: topic, Revision: topic.Version}, nil
}

// UpdateTopicConfig changes a topic's configs.
func (m *Metadata) UpdateTopicConfig(ctx context.Context, req *coordinatorv1.UpdateTopicConfigRequest) (*coordinatorv1.UpdateTopicConfigResponse, error) {
	if !m.cluster.Leads() {
		return forward(ctx, m, req, coordinatorv1.MetadataServiceClient.UpdateTopicConfig)
	}
	topic, err := m.cluster.UpdateTopicConfig(ctx, req)
	if err != nil {
		return nil, err
	}
	return &coordinatorv1.UpdateTopicConfigResponse{Topic: topic, Revision: topic.Version}, nil
}

// DeleteTopic deletes a topic.
func (m *Metadata) DeleteTopic(ctx context.Context, req *coordinatorv1.DeleteTopicRequest) (*coordinatorv1.DeleteTopicResponse, error) {
	if !m.cluster.Leads() {
		return forward(ctx, m, req, coordinatorv1.MetadataServiceClient.DeleteTopic)
	}
	topic, err := m.cluster.DeleteTopic(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	return &coordinatorv1.DeleteTopicResponse{Topic: topic, Revision: topic.Version}, nil
}

// ListTopics returns every topic that was there when the call came.
func (m *Metadata) ListTopics(ctx context.Context, _ *coordinatorv1.ListTopicsRequest) (*coordinatorv1.ListTopicsResponse, error) {
	if err := m.view.Sync(ctx); err != nil {
		return nil, err
	}
	return &coordinatorv1.ListTopicsResponse{Topics: m.view.Topics()}, nil
}

// DescribeTopic returns one topic.
func (m *Metadata) DescribeTopic(ctx context.Context, req *coordinatorv1.DescribeTopicRequest) (*coordinatorv1.DescribeTopicResponse, error) {
	row, err := m.store.Get(ctx, req.Name)
	if err != nil {
		return nil, err
	}
	topic, err := rows.Topic(row.TopicRow, row.Version)
	if err != nil {
		return nil, err
	}
	return &coordinatorv1.DescribeTopicResponse{Topic: topic, Revision: topic.Version}, nil
}

// ListNodes returns the nodes, as they were when the call came.
func (m *Metadata) ListNodes(ctx context.Context, _ *coordinatorv1.ListNodesRequest) (*coordinatorv1.ListNodesResponse, error) {
	if err := m.view.Sync(ctx); err != nil {
		return nil, err
	}
	return &coordinatorv1.ListNodesResponse{Nodes: cluster.Nodes(m.view)}, nil
}

// ForgetNode gives up a node.
func (m *Metadata) ForgetNode(ctx context.Context, req *coordinatorv1.ForgetNodeRequest) (*coordinatorv1.ForgetNodeResponse, error) {
	if !m.cluster.Leads() {
		return forward(ctx, m, req, coordinatorv1.MetadataServiceClient.ForgetNode)
	}
	lost, err := m.cluster.ForgetNode(ctx, req.NodeId, req.Force)
	if err != nil {
		return nil, err
	}
	return &coordinatorv1.ForgetNodeResponse{LostTopics: lost}, nil
}

// WatchMetadata sends the picture and its changes until the caller hangs up.
func (m *Metadata) WatchMetadata(_ *coordinatorv1.WatchMetadataRequest, stream grpc.ServerStreamingServer[coordinatorv1.WatchMetadataResponse]) error {
	feed := m.view.Feed()
	for {
		message, err := feed.Next(stream.Context())
		if err != nil {
			return err
		}
		if err := stream.Send(message); err != nil {
			return err
		}
	}
}

// forwardedKey marks a call that has been passed on once: a coordinator that
// then does not lead either says so, instead of passing it round.
const forwardedKey = "sluice-forwarded"

// forward passes a call on to the elected coordinator.
func forward[Req, Resp any](
	ctx context.Context, m *Metadata, req Req,
	call func(coordinatorv1.MetadataServiceClient, context.Context, Req, ...grpc.CallOption) (Resp, error),
) (Resp, error) {
	var none Resp
	leader := m.view.Elected()
	notLeader := meta.ErrNotLeader.With("leader", leader)
	if leader == "" || leader == m.node || len(metadata.ValueFromIncomingContext(ctx, forwardedKey)) > 0 {
		return none, notLeader
	}
	client, err := m.peers.Metadata(ctx, leader)
	if err != nil {
		return none, notLeader.Because(err)
	}
	return call(client, metadata.AppendToOutgoingContext(ctx, forwardedKey, m.node), req)
}
