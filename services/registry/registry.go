// Package registry is the service that knows who a caller is, what it may do and
// how many bytes it may move, and that keeps schemas.
//
// Keys are rows in etcd that every registry follows, so each answers for all. A
// revocation is confirmed by all of them and by the gateways that remember
// callers before it is over. A key's budget is kept by one registry, the one
// that all gateways choose for the key.
//
// Without authentication every caller is the administrator "anonymous"; keys can
// be made all the same, for the day it is turned on.
package registry

import (
	"context"
	"errors"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/kit/life"
	"github.com/sluiceio/sluice/services/registry/internal/catalog"
	"github.com/sluiceio/sluice/services/registry/internal/keyring"
	"github.com/sluiceio/sluice/services/registry/internal/quota"
	"github.com/sluiceio/sluice/services/registry/internal/rpc"
)

// Node is a process of the cluster that is a registry.
type Node = rpc.Node

// Dialer gives connections to the nodes of the cluster; rpc.Dialer of
// services/kit is one.
type Dialer = rpc.Dialer

// DefaultMemory is how long a gateway that does not answer may remember callers,
// and so how long a revocation waits for it.
const DefaultMemory = 3 * time.Second

// Deps are what the process gives to the service.
type Deps struct {
	// Nil logs nothing.
	Logger *slog.Logger
	Etcd   *clientv3.Client
	// Alive says whether the process still has its lease in etcd.
	Alive func() bool
	// Registries returns the registries whose leases are alive, this one too.
	Registries func(ctx context.Context) ([]Node, error)
	Dialer     Dialer
	// BootstrapFile is where the secret of the first key goes.
	BootstrapFile string
	// Memory is DefaultMemory when it is 0.
	Memory time.Duration
	// Now is nil for the system's clock.
	Now func() time.Time
}

// Service is the registry of one process.
type Service struct {
	logger    *slog.Logger
	required  bool
	bootstrap string
	now       func() time.Time
	ring      *keyring.Ring
	schemas   *catalog.Catalog
	budgets   *quota.Budgets
	peers     *rpc.Peers
	ready     chan struct{}
}

// New checks cfg and makes a service. It starts nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Memory == 0 {
		deps.Memory = DefaultMemory
	}
	budgets := quota.NewBudgets(deps.Now)
	return &Service{
		logger:    deps.Logger,
		required:  cfg.Auth == AuthRequired,
		bootstrap: deps.BootstrapFile,
		now:       deps.Now,
		budgets:   budgets,
		ring: keyring.New(keyring.Config{
			Etcd:    deps.Etcd,
			Alive:   deps.Alive,
			Logger:  deps.Logger,
			Lease:   deps.Memory,
			Revoked: budgets.Forget,
		}),
		schemas: catalog.New(deps.Etcd, deps.Logger),
		peers:   &rpc.Peers{Find: deps.Registries, Dialer: deps.Dialer, Logger: deps.Logger},
		ready:   make(chan struct{}),
	}, nil
}

// Register adds the services to a server. Call it before Run.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	ring := s.ring
	if !s.required {
		ring = nil
	}
	registryv1.RegisterAuthServiceServer(r, rpc.NewAuth(ring))
	registryv1.RegisterKeyServiceServer(r, rpc.NewKeys(s.ring, s.peers, s.now))
	registryv1.RegisterQuotaServiceServer(r, rpc.NewQuota(s.ring, s.budgets))
	registryv1.RegisterSchemaServiceServer(r, rpc.NewSchemas(s.schemas))
}

// Run serves until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	parts := life.NewGroup(ctx)
	parts.Go("keys", s.ring.Run)
	parts.Go("schemas", s.schemas.Run)
	parts.Go("first key", s.begin)
	return parts.Wait()
}

// begin makes the first key where it is needed, and then the service ready.
func (s *Service) begin(ctx context.Context) error {
	if s.required {
		if err := s.ring.Bootstrap(ctx, s.bootstrap, s.now()); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	} else {
		s.logger.WarnContext(ctx, "authentication is off: every caller is an administrator")
	}
	for _, known := range []<-chan struct{}{s.ring.Known(), s.schemas.Known()} {
		select {
		case <-known:
		case <-ctx.Done():
			return nil
		}
	}
	close(s.ready)
	return nil
}

var errNotReady = errors.New("keys and schemas have not been read from etcd yet")

// Ready returns nil once keys and schemas are known.
func (s *Service) Ready() error {
	select {
	case <-s.ready:
		return nil
	default:
		return errNotReady
	}
}
