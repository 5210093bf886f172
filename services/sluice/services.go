package sluice

import (
	"context"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/services/coordinator"
	"github.com/sluiceio/sluice/services/gateway"
	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/registry"
	"github.com/sluiceio/sluice/services/sluice/internal/directory"
	"github.com/sluiceio/sluice/services/sluice/internal/stack"
	"github.com/sluiceio/sluice/services/storage"
)

// service is what the root package of each service has.
type service interface {
	Register(r grpc.ServiceRegistrar)
	Run(ctx context.Context) error
	Ready() error
}

// makeServices makes the services of the node's roles and puts the parts in
// their order: what serves others stands below them.
func (n *Node) makeServices(metrics *prometheus.Registry, bootstrapFile string) error {
	runs := roles(n.cfg.Roles)
	if runs.has(Storage) {
		cold, err := n.openColdStorage()
		if err != nil {
			return err
		}
		deps := storage.Deps{
			Logger:     n.logger.With("service", "storage"),
			Registerer: metrics,
			NodeID:     n.id,
			Cold:       cold,
		}
		if n.tracing.Enabled() {
			deps.Tracer = n.tracing.Tracer("github.com/sluiceio/sluice/services/storage")
		}
		replicas, err := storage.New(n.cfg.Storage, deps)
		if err != nil {
			return err
		}
		n.host("storage", replicas)
	}
	n.add(n.connectionsPart())

	var nodes *directory.Directory
	if runs.has(Gateway) || runs.has(Registry) {
		nodes = directory.New(n.id, n.etcd, n.logger)
		n.add(stack.Part{Name: "directory", Run: nodes.Run})
	}
	// The node's row names its doors, so they are opened first.
	var doors *gateway.Service
	if runs.has(Gateway) {
		var err error
		if doors, err = n.openDoors(nodes, metrics); err != nil {
			return err
		}
	}
	if err := n.openPresence(); err != nil {
		return err
	}
	n.add(n.presencePart())
	if runs.has(Coordinator) {
		coordinates, err := coordinator.New(n.cfg.Coordinator, coordinator.Deps{
			Logger:     n.logger,
			Registerer: metrics,
			Etcd:       n.etcd,
			Dialer:     n.dialer,
			NodeID:     n.id,
			Session:    n.session,
		})
		if err != nil {
			return err
		}
		n.host("coordinator", coordinates)
	}
	if runs.has(Registry) {
		auth, err := registry.New(n.cfg.Registry, registry.Deps{
			Logger:        n.logger.With("service", "registry"),
			Etcd:          n.etcd,
			Alive:         n.session.Alive,
			Registries:    nodes.Registries,
			Dialer:        n.dialer,
			BootstrapFile: bootstrapFile,
		})
		if err != nil {
			return err
		}
		n.host("registry", auth)
	}
	if doors != nil {
		n.host("gateway", doors)
	}
	return nil
}

// openColdStorage returns the store, nil if there is none to be. Whether it can be
// used is found out beside everything else.
func (n *Node) openColdStorage() (blob.Store, error) {
	cold, err := n.cfg.ColdStorage.Open()
	if err != nil || cold == nil {
		return nil, err
	}
	n.closer.Push("cold storage", cold.Close)
	n.add(stack.Part{Name: "cold storage", Run: func(ctx context.Context) error {
		return cold.Watch(ctx, n.id, n.logger.With("service", "storage"))
	}})
	return cold.Store, nil
}

func (n *Node) openDoors(nodes *directory.Directory, metrics *prometheus.Registry) (*gateway.Service, error) {
	doors, err := gateway.New(n.cfg.Gateway, gateway.Deps{
		Logger:     n.logger.With("service", "gateway"),
		Gatherer:   metrics,
		Registerer: metrics,
		Tracing:    n.tracing,
		Dialer:     n.dialer,
		Finder:     nodes,
	})
	if err != nil {
		return nil, err
	}
	n.closer.Push("doors", doors.Close)
	n.doors = map[string]string{}
	for door, address := range map[string]net.Addr{"http": doors.HTTPAddr(), "grpc": doors.GRPCAddr(), "binary": doors.BinaryAddr()} {
		if address != nil {
			n.doors[door] = address.String()
		}
	}
	return doors, nil
}

// host registers a service for all who may call it and adds it to the parts.
func (n *Node) host(name string, s service) {
	s.Register(n.local)
	if n.server != nil {
		s.Register(n.server)
	}
	ran := false
	n.closer.Push(name, func() error {
		if ran {
			return nil
		}
		// Only Run gives back what the service took when it was made.
		over, cancel := context.WithCancel(context.Background())
		cancel()
		return s.Run(over)
	})
	n.add(stack.Part{
		Name: name,
		Run: func(ctx context.Context) error {
			ran = true
			return s.Run(ctx)
		},
		Ready: s.Ready,
	})
}

func (n *Node) add(part stack.Part) { n.parts = append(n.parts, part) }
