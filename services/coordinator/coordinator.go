// Package coordinator is the service that knows where everything is: topics and
// their placement, the cluster's nodes and leaders, and the shards that keep
// consumer groups and what they have committed.
//
//	            ┌────────── etcd: rows, leases, election ──────────┐
//	            ▼                                                  ▲
//	picture (view) ──► gateways (WatchMetadata)     elected leader (cluster)
//	            ▲                                                  │ places, removes
//	            └── leaders of partitions ── storage nodes ◄───────┘
//	                                              ▲
//	                 shards, owned by lease ──────┘ fence, replay, append
//
// Every coordinator has the whole picture and owns its share of the shards; one
// of them, elected, makes the changes, and the others pass them on to it.
package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/cluster"
	"github.com/sluiceio/sluice/services/coordinator/internal/elect"
	"github.com/sluiceio/sluice/services/coordinator/internal/group"
	"github.com/sluiceio/sluice/services/coordinator/internal/meta"
	"github.com/sluiceio/sluice/services/coordinator/internal/offsets"
	"github.com/sluiceio/sluice/services/coordinator/internal/peer"
	"github.com/sluiceio/sluice/services/coordinator/internal/producers"
	"github.com/sluiceio/sluice/services/coordinator/internal/reports"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/rpc"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
	"github.com/sluiceio/sluice/services/coordinator/internal/state"
	"github.com/sluiceio/sluice/services/coordinator/internal/view"
	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/lease"
	"github.com/sluiceio/sluice/services/kit/life"
)

// ShardTopic is the internal topic whose partitions are the shards' logs. The
// name is in etcd: it must not change.
const ShardTopic = "__sluice_shards"

// Dialer gives connections to the services of nodes. They are the dialer's.
type Dialer interface {
	Conn(ctx context.Context, node, address string) (grpc.ClientConnInterface, error)
}

// Deps is what a coordinator needs of its process.
type Deps struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Etcd       *clientv3.Client
	Dialer     Dialer
	// NodeID is the process's id in the cluster.
	NodeID string
	// Session is the process's lease. The process runs it, and registers the
	// node's row with it: see NodeRegistration.
	Session *lease.Session
}

// NodeRegistration is the key and value with which a process makes itself known
// to the coordinators; it goes to lease.Session.Register. NodeKey is the
// session's identity.
func NodeRegistration(row *persistv1.NodeRow) (key string, value []byte, err error) {
	value, err = proto.Marshal(row)
	if err != nil {
		return "", nil, fmt.Errorf("encode the row of node %q: %w", row.Id, err)
	}
	return NodeKey(row.Id), value, nil
}

// NodeKey is the key of a node's row in etcd.
func NodeKey(id string) string { return rows.NodeKey(id) }

// ForgottenNodeKey is the key that keeps a node out of the cluster that was given
// up; it goes to lease.Config.Bar.
func ForgottenNodeKey(id string) string { return rows.ForgottenKey(id) }

// Service is a coordinator.
type Service struct {
	deps    Deps
	view    *view.View
	reports *reports.Follower
	elector *elect.Elector
	cluster *cluster.Cluster
	keeper  *shard.Keeper[*state.State]
	sweeper *offsets.Sweeper
	// follower has groups rebalance when their topics change.
	follower *group.Follower

	metadata  *rpc.Metadata
	offsets   *rpc.Offsets
	groups    *rpc.Groups
	producers *rpc.Producers
}

// New returns a coordinator that does nothing before Run.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configuration of the coordinator: %w", err)
	}
	log := deps.Logger.With("service", "coordinator")
	v := view.New(deps.Etcd, log)
	peers := peer.New(v, deps.Dialer)
	store := meta.NewStore(deps.Etcd)
	c := cluster.New(cluster.Config{
		ReplicationFactor: cfg.ReplicationFactor,
		CallTimeout:       cfg.NodeTimeout,
		ShardTopic: cluster.ShardTopic{
			Name:       ShardTopic,
			Partitions: cfg.Shards,
			Config: map[string]string{
				"cleanup.policy": "compact",
				// Only sealed segments are compacted, and replay reads what is not.
				"segment.bytes": strconv.Itoa(64 << 20),
				// Two requests may share a batch; the rest is for what a batch
				// takes beside its records.
				"max.message.bytes": strconv.Itoa(2*maxBatchBytes + 1<<20),
			},
		},
	}, store, v, peers, log)
	evictions := promauto.With(deps.Registerer).NewCounter(prometheus.CounterOpts{
		Name: "sluice_coordinator_members_evicted_total",
		Help: "Members of groups that missed their heartbeats.",
	})
	limits := group.Config{
		MemberTimeout:  cfg.MemberTimeout,
		ExpireInterval: cfg.ExpireInterval,
		MaxMembers:     cfg.MaxMembers,
		MaxGroups:      cfg.MaxGroups,
		IdleTimeout:    cfg.GroupIdleTimeout,
		Evicted: func(group string, members int) {
			evictions.Add(float64(members))
			log.Info("members of a group were not heard of and are removed", "group", group, "members", members)
		},
		Expired: func(group string) {
			log.Info("a group without members and committed offsets was idle for long and is removed", "group", group)
		},
	}
	fresh := func(int32) *state.State {
		now := time.Now()
		return state.New(group.NewState(limits, v, now), offsets.NewState(), producers.NewState(now))
	}
	runtime := shard.New(shard.Config{
		MaxQueued:     cfg.ShardMaxQueued,
		MaxBatchBytes: cfg.ShardMaxBatchBytes,
		AppendTimeout: cfg.ShardAppendTimeout,
		LoadTimeout:   cfg.ShardLoadTimeout,
	}, shard.NewStorageLog(v, peers, ShardTopic), fresh, log, deps.Registerer)
	committed := offsets.New(shard.PartOf(runtime, (*state.State).OfOffsets), v)
	groups := group.New(shard.PartOf(runtime, (*state.State).OfGroups), v)

	s := &Service{
		deps:      deps,
		view:      v,
		reports:   reports.New(v, peers, log),
		elector:   elect.New(deps.Etcd, deps.Session, deps.NodeID, log),
		cluster:   c,
		keeper:    shard.NewKeeper(runtime, deps.Etcd, deps.Session, v, deps.NodeID, ShardTopic),
		sweeper:   offsets.NewSweeper(committed, log),
		follower:  group.NewFollower(groups, log),
		metadata:  rpc.NewMetadata(deps.NodeID, c, store, v, peers),
		offsets:   rpc.NewOffsets(committed),
		groups:    rpc.NewGroups(groups, committed, v),
		producers: rpc.NewProducers(producers.New(shard.PartOf(runtime, (*state.State).OfProducers))),
	}
	s.registerMetrics()
	return s, nil
}

func (s *Service) registerMetrics() {
	f := promauto.With(s.deps.Registerer)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_coordinator_topics",
		Help: "Topics in the picture of the cluster, internal ones too.",
	}, func() float64 { return float64(s.view.TopicCount()) })
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_coordinator_leads",
		Help: "1 on the elected coordinator.",
	}, func() float64 {
		if s.cluster.Leads() {
			return 1
		}
		return 0
	})
}

// Register adds the services to a server, before Run.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	coordinatorv1.RegisterMetadataServiceServer(r, s.metadata)
	coordinatorv1.RegisterOffsetServiceServer(r, s.offsets)
	coordinatorv1.RegisterGroupServiceServer(r, s.groups)
	coordinatorv1.RegisterProducerServiceServer(r, s.producers)
}

// Run coordinates until ctx ends; then it resigns and stops owning shards. The
// storage nodes should still answer while it does.
func (s *Service) Run(ctx context.Context) error {
	if err := s.ensureCluster(ctx); err != nil {
		return err
	}
	g := life.NewGroup(ctx)
	g.Go("picture", s.view.Run)
	g.Go("reports", s.reports.Run)
	g.Go("election", func(ctx context.Context) error { return s.elector.Run(ctx, s.cluster.Lead) })
	g.Go("shards", s.keeper.Run)
	g.Go("offsets", s.sweeper.Run)
	g.Go("groups", s.follower.Run)
	return g.Wait()
}

// ensureCluster sees to it that this program may work on the cluster. It waits
// for an etcd that does not answer yet.
func (s *Service) ensureCluster(ctx context.Context) error {
	wait := backoff.New(backoff.Policy{Initial: 20 * time.Millisecond, Max: time.Second})
	for {
		_, err := meta.EnsureCluster(ctx, s.deps.Etcd)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return nil // a stop before the start
		case !errors.Is(err, meta.ErrNoAnswer):
			return fmt.Errorf("coordinator: %w", err)
		}
		s.deps.Logger.Warn("etcd does not answer, trying again", "err", err)
		_ = wait.Wait(ctx)
	}
}

// Ready is nil once the coordinator has the picture of the cluster, a lease, and
// a leader to pass changes on to.
func (s *Service) Ready() error {
	switch {
	case s.view.Revision() == 0:
		return errors.New("coordinator: no picture of the cluster yet")
	case !s.deps.Session.Alive():
		return errors.New("coordinator: no lease")
	case s.view.Elected() == "":
		return errors.New("coordinator: no coordinator is elected")
	case s.view.Elected() == s.deps.NodeID && !s.cluster.Leads():
		return errors.New("coordinator: elected, not leading yet")
	}
	return nil
}
