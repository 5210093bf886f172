package sluice

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluiceio/sluice/services/kit/lease"
	"github.com/sluiceio/sluice/services/kit/life"
	"github.com/sluiceio/sluice/services/kit/obs"
	"github.com/sluiceio/sluice/services/kit/rpc"
	"github.com/sluiceio/sluice/services/sluice/internal/datadir"
	"github.com/sluiceio/sluice/services/sluice/internal/stack"
)

// tracingGrace is how long a stop waits for spans to be sent.
const tracingGrace = 2 * time.Second

// Deps are what the process gives to the node.
type Deps struct {
	Logger *slog.Logger
	// Registry takes the node's metrics and is what the node's door shows.
	Registry *prometheus.Registry
}

// Node is one process of a cluster, or all of it.
type Node struct {
	cfg    Config
	logger *slog.Logger
	id     string

	// closer has what is given back when all parts have stopped.
	closer life.Closer
	parts  []stack.Part
	doors  map[string]string

	tracing *obs.Tracing
	etcd    *clientv3.Client
	local   *rpc.Local
	dialer  rpc.Dialer
	session *lease.Session
	// server and listener are for other nodes; nil where there are none.
	server   *rpc.Server
	listener net.Listener
	// metrics is where the process's own are shown, empty for nowhere.
	metrics string
	ready   atomic.Bool
}

// New takes the data directory, the addresses and etcd, and makes the services.
// Run must follow; it gives all of it back.
func New(ctx context.Context, cfg Config, deps Deps) (node *Node, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg}
	defer n.closer.CloseOnError(&err)

	dir, err := datadir.Open(cfg.DataDir, cfg.NodeID)
	if err != nil {
		return nil, err
	}
	n.closer.Push("data directory", dir.Close)
	n.id = dir.NodeID()
	n.logger = deps.Logger.With("node_id", n.id)

	if n.tracing, err = obs.NewTracing(ctx, cfg.Obs, "sluice", n.id, n.logger); err != nil {
		return nil, err
	}
	n.closer.Push("tracing", func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tracingGrace)
		defer cancel()
		return n.tracing.Shutdown(ctx)
	})
	if err := n.openMetrics(deps.Registry); err != nil {
		return nil, err
	}
	if err := n.openEtcd(ctx, dir.Path("etcd")); err != nil {
		return nil, err
	}
	if err := n.openConnections(); err != nil {
		return nil, err
	}
	if err := n.makeServices(deps.Registry, dir.Path("bootstrap.key")); err != nil {
		return nil, err
	}
	return n, nil
}

// ID is who the node is in its cluster.
func (n *Node) ID() string { return n.id }

// Doors are the addresses where clients reach the node, by door: "http", "grpc", "binary".
func (n *Node) Doors() map[string]string { return n.doors }

// Run starts the services, calls ready once all of them serve, and stops them
// cleanly, in reverse, when ctx ends or one of them fails.
func (n *Node) Run(ctx context.Context, ready func()) error {
	err := stack.Run(ctx, n.parts, func() {
		if n.server != nil {
			n.server.SetReady(true)
		}
		n.ready.Store(true)
		ready()
	}, n.logger)
	return errors.Join(err, n.closer.Close())
}
