// Package peer reaches the services of other nodes.
package peer

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/view"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// ErrNodeAway means that the node is not registered, or cannot be reached.
var ErrNodeAway = errs.New(errs.Unavailable, "NODE_UNAVAILABLE", "the node is not available")

// Dialer gives connections to nodes. They are the dialer's: nobody closes them.
type Dialer interface {
	Conn(ctx context.Context, node, address string) (grpc.ClientConnInterface, error)
}

// Peers finds nodes in the picture of the cluster and calls them.
type Peers struct {
	view   *view.View
	dialer Dialer
}

// New returns the nodes of a picture.
func New(v *view.View, d Dialer) *Peers { return &Peers{view: v, dialer: d} }

// Storage returns a node's partitions. ErrNodeAway.
func (p *Peers) Storage(ctx context.Context, node string) (storagev1.StorageServiceClient, error) {
	conn, err := p.conn(ctx, node)
	if err != nil {
		return nil, err
	}
	return storagev1.NewStorageServiceClient(conn), nil
}

// Replicas returns the administration of a node's replicas. ErrNodeAway.
func (p *Peers) Replicas(ctx context.Context, node string) (storagev1.ReplicaServiceClient, error) {
	conn, err := p.conn(ctx, node)
	if err != nil {
		return nil, err
	}
	return storagev1.NewReplicaServiceClient(conn), nil
}

// Metadata returns another coordinator. ErrNodeAway.
func (p *Peers) Metadata(ctx context.Context, node string) (coordinatorv1.MetadataServiceClient, error) {
	conn, err := p.conn(ctx, node)
	if err != nil {
		return nil, err
	}
	return coordinatorv1.NewMetadataServiceClient(conn), nil
}

func (p *Peers) conn(ctx context.Context, node string) (grpc.ClientConnInterface, error) {
	n, ok := p.view.Node(node)
	if !ok {
		return nil, ErrNodeAway.WithMessage("node %q is not registered", node).With("node", node)
	}
	conn, err := p.dialer.Conn(ctx, node, n.Address)
	if err != nil {
		return nil, ErrNodeAway.WithMessage("node %q cannot be reached", node).With("node", node).
			Because(fmt.Errorf("dial %s: %w", n.Address, err))
	}
	return conn, nil
}
