// Package clustertest is a cluster in memory for tests of the gateway: real gRPC
// services of coordinator, storage and registry, that keep what a test writes
// and fail when it says so.
package clustertest

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"google.golang.org/grpc"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/rpc"
)

// CoordinatorNode is the node that is coordinator and registry.
const CoordinatorNode = "c"

// Cluster is a coordinator, a registry and storage nodes. It is the Dialer and
// the Finder of a gateway.
type Cluster struct {
	Coordinator *Coordinator
	Registry    *Registry
	// By node id.
	Storage map[string]*Storage
	// Producers are the ids of idempotent producers.
	Producers *Producers

	mu struct {
		sync.Mutex
		conns map[string]*rpc.Local
		down  map[string]bool
	}
}

var (
	_ backend.Dialer = (*Cluster)(nil)
	_ backend.Finder = (*Cluster)(nil)
)

// New returns a cluster with these storage nodes, which ends with the test.
func New(tb testing.TB, nodes ...string) *Cluster {
	tb.Helper()
	c := &Cluster{Registry: &Registry{}, Storage: make(map[string]*Storage), Producers: &Producers{}}
	c.Coordinator = newCoordinator(nodes)
	c.mu.conns = make(map[string]*rpc.Local)
	c.mu.down = make(map[string]bool)
	options := rpc.Options{Logger: slog.New(slog.DiscardHandler)}
	central := rpc.NewLocal(options)
	coordinatorv1.RegisterMetadataServiceServer(central, c.Coordinator)
	coordinatorv1.RegisterOffsetServiceServer(central, c.Coordinator.offsets)
	coordinatorv1.RegisterGroupServiceServer(central, c.Coordinator.Groups)
	coordinatorv1.RegisterProducerServiceServer(central, c.Producers)
	registryv1.RegisterAuthServiceServer(central, c.Registry)
	c.mu.conns[CoordinatorNode] = central
	for _, node := range nodes {
		c.Storage[node] = newStorage(node)
		conn := rpc.NewLocal(options)
		storagev1.RegisterStorageServiceServer(conn, c.Storage[node])
		c.mu.conns[node] = conn
	}
	tb.Cleanup(func() {
		for _, conn := range c.mu.conns {
			conn.Stop()
		}
	})
	return c
}

// SetDown makes a node unreachable, or reachable again.
func (c *Cluster) SetDown(node string, down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.down[node] = down
}

// Conn returns the connection to a node.
func (c *Cluster) Conn(_ context.Context, node, _ string) (grpc.ClientConnInterface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := c.mu.conns[node]
	if conn == nil || c.mu.down[node] {
		return nil, errs.New(errs.Unavailable, "NODE_DOWN", "node %q is down", node)
	}
	return conn, nil
}

// Find returns the one coordinator and registry.
func (c *Cluster) Find(context.Context, string) ([]backend.Node, error) {
	return []backend.Node{{ID: CoordinatorNode}}, nil
}

// Registry is a registry without authentication, unless a test says otherwise.
type Registry struct {
	registryv1.UnimplementedAuthServiceServer

	mu struct {
		sync.Mutex
		// By secret; nil lets everybody in as administrator.
		principals map[string]*registryv1.Principal
	}
}

// Require lets in only those who have one of these secrets.
func (r *Registry) Require(principals map[string]*registryv1.Principal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.principals = principals
}

// Authenticate resolves a secret.
func (r *Registry) Authenticate(_ context.Context, req *registryv1.AuthenticateRequest) (*registryv1.AuthenticateResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.principals == nil {
		return &registryv1.AuthenticateResponse{Principal: &registryv1.Principal{Id: "anonymous", Admin: true}}, nil
	}
	principal := r.mu.principals[req.GetSecret()]
	if principal == nil {
		return nil, errs.New(errs.Unauthenticated, "NO_KEY", "no or unknown key")
	}
	return &registryv1.AuthenticateResponse{Principal: principal}, nil
}
