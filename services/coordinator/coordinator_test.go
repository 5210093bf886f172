package coordinator_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator"
	"github.com/sluiceio/sluice/services/coordinator/internal/meta"
	"github.com/sluiceio/sluice/services/coordinator/internal/peer"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
	"github.com/sluiceio/sluice/services/coordinator/internal/storagetest"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/lease"
	"github.com/sluiceio/sluice/services/kit/lease/etcdtest"
	"github.com/sluiceio/sluice/services/kit/life"
	"github.com/sluiceio/sluice/services/kit/rpc"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// cluster is processes that share an etcd.
type cluster struct {
	t       *testing.T
	etcd    *clientv3.Client
	storage *storagetest.Cluster

	mu    sync.Mutex
	conns map[string]*rpc.Local
	// lives counts the starts of processes.
	lives int
	// ttl is that of the processes' leases: a process that stands still for less
	// loses nothing.
	ttl time.Duration
}

func newCluster(t *testing.T) *cluster {
	return &cluster{
		t: t, etcd: etcdtest.Start(t), storage: storagetest.NewCluster(), conns: make(map[string]*rpc.Local), ttl: 10 * time.Second,
	}
}

// Conn is the dialer of all processes.
func (c *cluster) Conn(_ context.Context, node, _ string) (grpc.ClientConnInterface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := c.conns[node]
	if conn == nil {
		return nil, fmt.Errorf("no process %q", node)
	}
	return conn, nil
}

// process is one that runs a coordinator, storage, or both.
type process struct {
	*testing.T
	id        string
	storage   *storagetest.Node
	session   *lease.Session
	service   *coordinator.Service
	metadata  coordinatorv1.MetadataServiceClient
	offsets   coordinatorv1.OffsetServiceClient
	groups    coordinatorv1.GroupServiceClient
	producers coordinatorv1.ProducerServiceClient
	stop      func()
}

func config() coordinator.Config {
	var cfg coordinator.Config
	cfg.RegisterFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	cfg.Shards = 4
	return cfg
}

// start starts a process with some roles and waits until it is ready.
func (c *cluster) start(id string, roles ...string) *process {
	return c.startWith(config(), id, roles...)
}

func (c *cluster) startWith(cfg coordinator.Config, id string, roles ...string) *process {
	t := c.t
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})).With("process", id)
	}
	local := rpc.NewLocal(rpc.Options{Logger: log, Grace: time.Second})
	session := lease.NewSession(c.etcd, lease.Config{TTL: c.ttl, Identity: coordinator.NodeKey(id), Logger: log})
	c.mu.Lock()
	c.lives++
	key, value, err := coordinator.NodeRegistration(&persistv1.NodeRow{
		Id: id, Roles: roles, Address: id + ":1", Incarnation: fmt.Appendf(nil, "%d", c.lives),
	})
	c.mu.Unlock()
	require.NoError(t, err)
	session.Register(key, value)

	p := &process{T: t, id: id, session: session}
	ctx, cancel := context.WithCancel(t.Context())
	lived := life.NewGroup(ctx)
	for _, role := range roles {
		switch role {
		case "storage":
			p.storage = c.storage.Node(id)
			p.storage.Register(local)
		case "coordinator":
			p.service, err = coordinator.New(cfg, coordinator.Deps{
				Logger: log, Registerer: prometheus.NewRegistry(), Etcd: c.etcd, Dialer: c, NodeID: id, Session: session,
			})
			require.NoError(t, err)
			p.service.Register(local)
			p.metadata = coordinatorv1.NewMetadataServiceClient(local)
			p.offsets = coordinatorv1.NewOffsetServiceClient(local)
			p.groups = coordinatorv1.NewGroupServiceClient(local)
			p.producers = coordinatorv1.NewProducerServiceClient(local)
			lived.Go("coordinator", p.service.Run)
		}
	}
	c.mu.Lock()
	c.conns[id] = local
	c.mu.Unlock()
	// Whoever finds its row reaches it, as with a process that listens before it
	// registers. Else the topic of the shards might be tried and taken back.
	lived.Go("session", session.Run)
	var once sync.Once
	p.stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(t, lived.Wait())
			local.Stop()
		})
	}
	t.Cleanup(p.stop)
	require.NoError(t, session.Flush(ctx))
	if p.service != nil {
		eventually(t, func() bool { return p.service.Ready() == nil })
	}
	return p
}

func eventually(t *testing.T, cond func() bool) {
	t.Helper()
	// Longer than it takes until a lease ends that was not given back.
	require.Eventually(t, cond, time.Minute, 2*time.Millisecond)
}

func (p *process) create(name string, partitions int32) *coordinatorv1.Topic {
	p.Helper()
	var resp *coordinatorv1.CreateTopicResponse
	retry(p.T, func() (err error) {
		resp, err = p.metadata.CreateTopic(p.Context(), &coordinatorv1.CreateTopicRequest{Name: name, Partitions: partitions})
		return err
	})
	return resp.Topic
}

// retry repeats what fails for the moment, as a gateway would.
func retry(t *testing.T, do func() error) {
	t.Helper()
	var err error
	ok := func() bool {
		err = do()
		return errs.KindOf(err) != errs.Unavailable
	}
	eventually(t, ok)
	require.NoError(t, err)
}

// key is on whose behalf groups are used.
var key = &coordinatorv1.Caller{Owner: "key_1"}

func (p *process) commit(group string, offsets ...*coordinatorv1.CommittedOffset) error {
	_, err := p.offsets.CommitOffsets(p.Context(), &coordinatorv1.CommitOffsetsRequest{Caller: key, Group: group, Offsets: offsets})
	return err
}

func (p *process) fetch(group string) ([]*coordinatorv1.CommittedOffset, error) {
	resp, err := p.offsets.FetchOffsets(p.Context(), &coordinatorv1.FetchOffsetsRequest{Caller: key, Group: group})
	return resp.GetOffsets(), err
}

func TestTopicsFromCreationToDeletion(t *testing.T) {
	c := newCluster(t)
	p := c.start("a", "coordinator", "storage")
	ctx := t.Context()

	created := p.create("orders", 3)
	require.Len(t, created.Id, 16)
	require.Len(t, created.Partitions, 3)
	require.Equal(t, []string{"a"}, created.Partitions[2].Nodes)
	require.Equal(t, []uint64{1}, created.Partitions[2].ReplicaIds)
	placed := p.storage.Topics()["orders"]
	require.Len(t, placed.Partitions, 3)
	require.Equal(t, created.Id, placed.TopicId)

	_, err := p.metadata.CreateTopic(ctx, &coordinatorv1.CreateTopicRequest{Name: "orders", Partitions: 1})
	require.ErrorIs(t, err, meta.ErrTopicExists)

	list, err := p.metadata.ListTopics(ctx, &coordinatorv1.ListTopicsRequest{})
	require.NoError(t, err)
	require.Contains(t, names(list.Topics), "orders")

	described, err := p.metadata.DescribeTopic(ctx, &coordinatorv1.DescribeTopicRequest{Name: "orders"})
	require.NoError(t, err)
	require.Equal(t, created.Version, described.Topic.Version)

	updated, err := p.metadata.UpdateTopicConfig(ctx, &coordinatorv1.UpdateTopicConfigRequest{
		Name: "orders", Set: map[string]string{"segment.bytes": "2048", "cleanup.policy": "delete, compact"},
	})
	require.NoError(t, err)
	want := map[string]string{"segment.bytes": "2048", "cleanup.policy": "compact,delete"}
	require.Equal(t, want, updated.Topic.Config)
	require.Greater(t, updated.Revision, created.Version)
	placed = p.storage.Topics()["orders"]
	require.Equal(t, want, placed.Config)
	require.Equal(t, updated.Revision, placed.ConfigVersion)

	deleted, err := p.metadata.DeleteTopic(ctx, &coordinatorv1.DeleteTopicRequest{Name: "orders"})
	require.NoError(t, err)
	require.Len(t, deleted.Topic.Partitions, 3)
	require.NotContains(t, p.storage.Topics(), "orders")
	_, err = p.metadata.DescribeTopic(ctx, &coordinatorv1.DescribeTopicRequest{Name: "orders"})
	require.ErrorIs(t, err, meta.ErrTopicNotFound)
	_, err = p.metadata.DeleteTopic(ctx, &coordinatorv1.DeleteTopicRequest{Name: "orders"})
	require.ErrorIs(t, err, meta.ErrTopicNotFound)

	again := p.create("orders", 1)
	require.NotEqual(t, created.Id, again.Id)
}

func names(topics []*coordinatorv1.Topic) []string {
	var list []string
	for _, t := range topics {
		list = append(list, t.Name)
	}
	return list
}

func TestWhatATopicCannotBe(t *testing.T) {
	c := newCluster(t)
	p := c.start("a", "coordinator", "storage")
	p.create("orders", 1)
	eventually(t, func() bool { return p.storage.Topics()[coordinator.ShardTopic] != nil })
	for name, req := range map[string]*coordinatorv1.CreateTopicRequest{
		"no name":             {Partitions: 1},
		"dots":                {Name: "..", Partitions: 1},
		"slash":               {Name: "a/b", Partitions: 1},
		"internal":            {Name: "__consumer_offsets", Partitions: 1},
		"no partitions":       {Name: "t"},
		"too many partitions": {Name: "t", Partitions: 10_001},
		"negative factor":     {Name: "t", Partitions: 1, ReplicationFactor: -1},
		"unknown config":      {Name: "t", Partitions: 1, Config: map[string]string{"retention": "1"}},
		"bad config":          {Name: "t", Partitions: 1, Config: map[string]string{"retention.ms": "soon"}},
		"small segments":      {Name: "t", Partitions: 1, Config: map[string]string{"segment.bytes": "1023"}},
	} {
		_, err := p.metadata.CreateTopic(t.Context(), req)
		require.Equal(t, errs.InvalidArgument, errs.KindOf(err), "%s: %v", name, err)
	}
	_, err := p.metadata.CreateTopic(t.Context(), &coordinatorv1.CreateTopicRequest{Name: "t", Partitions: 1, ReplicationFactor: 2})
	require.Equal(t, errs.FailedPrecondition, errs.KindOf(err))
	_, err = p.metadata.DeleteTopic(t.Context(), &coordinatorv1.DeleteTopicRequest{Name: coordinator.ShardTopic})
	require.ErrorIs(t, err, meta.ErrInternalTopic)
	_, err = p.metadata.UpdateTopicConfig(t.Context(), &coordinatorv1.UpdateTopicConfigRequest{Name: coordinator.ShardTopic})
	require.ErrorIs(t, err, meta.ErrInternalTopic)
	list, err := p.metadata.ListTopics(t.Context(), &coordinatorv1.ListTopicsRequest{})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"orders", coordinator.ShardTopic}, names(list.Topics))
}

func TestCreationWithANodeDownLeavesNothing(t *testing.T) {
	c := newCluster(t)
	p := c.start("a", "coordinator")
	up, down := c.start("s1", "storage"), c.start("s2", "storage")
	p.create("before", 2)
	down.storage.SetDown(true)
	_, err := p.metadata.CreateTopic(t.Context(), &coordinatorv1.CreateTopicRequest{Name: "orders", Partitions: 2, ReplicationFactor: 2})
	require.ErrorIs(t, err, peer.ErrNodeAway)
	_, err = p.metadata.DescribeTopic(t.Context(), &coordinatorv1.DescribeTopicRequest{Name: "orders"})
	require.ErrorIs(t, err, meta.ErrTopicNotFound)
	eventually(t, func() bool { return up.storage.Topics()["orders"] == nil })
	require.NotContains(t, down.storage.Topics(), "orders")

	down.storage.SetDown(false)
	p.create("orders", 2)
	eventually(t, func() bool { return c.count("/sluice/deleting/") == 0 })
}

// A placement whose caller has given up may arrive after the removal that was
// decided since.
func TestPlacementThatComesLateLeavesNothing(t *testing.T) {
	c := newCluster(t)
	cfg := config()
	// What is not held keeps to it on a busy machine, too.
	cfg.NodeTimeout = 2 * time.Second
	p := c.startWith(cfg, "a", "coordinator")
	s := c.start("s", "storage")
	p.create("before", 1)
	eventually(t, func() bool { return s.storage.Topics()[coordinator.ShardTopic] != nil })
	s.storage.HoldNext("orders")
	// A node that did not answer a moment ago gets nothing to place.
	eventually(t, func() bool {
		_, err := p.metadata.CreateTopic(t.Context(), &coordinatorv1.CreateTopicRequest{Name: "orders", Partitions: 2})
		require.ErrorIs(t, err, peer.ErrNodeAway)
		return !s.storage.Holds()
	})
	eventually(t, func() bool { return c.count("/sluice/deleting/") == 0 })
	require.NotEmpty(t, s.storage.Removed())
	c.storage.Deliver()
	require.NotContains(t, s.storage.Topics(), "orders")
	p.create("orders", 2)
	require.Contains(t, s.storage.Topics(), "orders")
}

// A node that is registered and does not answer owes the removal of what it was
// last to place. It gets nothing more, so tries over and over, also those for the
// topic of the shards, leave no row each.
func TestTriesThatFailLeaveOneRow(t *testing.T) {
	c := newCluster(t)
	s := c.start("s", "storage")
	s.storage.SetDown(true)
	p := c.start("a", "coordinator")
	eventually(t, func() bool { return c.count("/sluice/deleting/") > 0 })
	for range 20 {
		_, err := p.metadata.CreateTopic(t.Context(), &coordinatorv1.CreateTopicRequest{Name: "orders", Partitions: 2})
		require.ErrorIs(t, err, peer.ErrNodeAway)
	}
	require.LessOrEqual(t, c.count("/sluice/deleting/"), int64(2))
	s.storage.SetDown(false)
	eventually(t, func() bool {
		return c.count("/sluice/deleting/") == 0 && s.storage.Topics()[coordinator.ShardTopic] != nil
	})
	p.create("orders", 2)
}

// A topic that is being made, and was changed meanwhile, is somebody's: it is not
// taken back, and its node is not told to remove it.
func TestTopicThatWasChangedIsNotTakenBack(t *testing.T) {
	c := newCluster(t)
	p := c.start("a", "coordinator")
	s := c.start("s", "storage")
	p.create("before", 1)
	release := s.storage.HoldNext("orders")
	defer release()
	ctx, giveUp := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := p.metadata.CreateTopic(ctx, &coordinatorv1.CreateTopicRequest{Name: "orders", Partitions: 2})
		failed <- err
	}()
	eventually(t, func() bool { return c.count("/sluice/topics/orders") == 1 })
	changed, stop := context.WithCancel(t.Context())
	go func() {
		eventually(t, func() bool {
			resp, err := p.metadata.DescribeTopic(t.Context(), &coordinatorv1.DescribeTopicRequest{Name: "orders"})
			return err == nil && resp.Topic.Config["retention.ms"] == "5"
		})
		stop() // the node does not answer
	}()
	_, _ = p.metadata.UpdateTopicConfig(changed, &coordinatorv1.UpdateTopicConfigRequest{Name: "orders", Set: map[string]string{"retention.ms": "5"}})
	giveUp()
	require.Error(t, <-failed)
	release()
	eventually(t, func() bool { return s.storage.Topics()["orders"].GetConfig()["retention.ms"] == "5" })
	require.EqualValues(t, 1, c.count("/sluice/topics/orders"))
	require.NotContains(t, s.storage.Removed(), [16]byte(s.storage.Topics()["orders"].TopicId))
}

func (c *cluster) count(prefix string) int64 {
	resp, err := c.etcd.Get(c.t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	require.NoError(c.t, err)
	return resp.Count
}

func TestANodeThatReturnsIsToldWhatItHoldsAndWhatWent(t *testing.T) {
	c := newCluster(t)
	p := c.start("a", "coordinator")
	s := c.start("s", "storage")
	stays, goes := p.create("stays", 2), p.create("goes", 2)
	s.stop()
	eventually(t, func() bool { return c.count("/sluice/nodes/s") == 0 })
	_, err := p.metadata.DeleteTopic(t.Context(), &coordinatorv1.DeleteTopicRequest{Name: "goes"})
	require.NoError(t, err)
	// The topic of the shards may have been tried and taken back beside it.
	require.EqualValues(t, 1, c.count(fmt.Sprintf("/sluice/deleting/%x", goes.Id)), "a node that may hold replicas is away")

	again := c.start("s", "storage")
	eventually(t, func() bool { return again.storage.Topics()["stays"] != nil && c.count("/sluice/deleting/") == 0 })
	require.Equal(t, stays.Id, again.storage.Topics()["stays"].TopicId)
	require.Contains(t, again.storage.Removed(), [16]byte(goes.Id))
	require.NotContains(t, again.storage.Topics(), "goes")
}

func TestOffsetsAreCommittedAndSurviveAnOwner(t *testing.T) {
	c := newCluster(t)
	s := c.start("s", "storage")
	require.NotNil(t, s)
	p := c.start("a", "coordinator")
	topic := p.create("orders", 2)
	commit := func(partition int32, offset int64) *coordinatorv1.CommittedOffset {
		return &coordinatorv1.CommittedOffset{TopicId: topic.Id, Partition: partition, Offset: offset, Metadata: "m"}
	}
	retry(t, func() error { return p.commit("g", commit(0, 1), commit(1, 5)) })
	require.NoError(t, p.commit("g", commit(0, 2)))

	for name, bad := range map[string]*coordinatorv1.CommittedOffset{
		"partition": commit(2, 1), "negative partition": commit(-1, 1), "offset": commit(0, -1),
		"topic id": {TopicId: []byte("short")},
	} {
		err := p.commit("g", commit(0, 9), bad)
		require.Equal(t, errs.InvalidArgument, errs.KindOf(err), "%s: %v", name, err)
	}
	err := p.commit("g", &coordinatorv1.CommittedOffset{TopicId: make([]byte, 16)})
	require.ErrorIs(t, err, meta.ErrTopicNotFound)
	require.Equal(t, errs.InvalidArgument, errs.KindOf(p.commit("", commit(0, 1))))

	check := func(p *process) {
		t.Helper()
		var got []*coordinatorv1.CommittedOffset
		retry(t, func() (err error) {
			got, err = p.fetch("g")
			return err
		})
		require.Len(t, got, 2)
		require.EqualValues(t, 2, got[0].Offset)
		require.EqualValues(t, 5, got[1].Offset)
		require.Equal(t, "m", got[1].Metadata)
		require.EqualValues(t, -1, got[0].ExpireTimeMs)
		require.EqualValues(t, -1, got[0].LeaderEpoch)
		require.Positive(t, got[0].CommitTimeMs)
	}
	check(p)
	p.stop()
	b := c.start("b", "coordinator")
	check(b)
	list, err := b.offsets.ListOffsets(t.Context(), &coordinatorv1.ListOffsetsRequest{})
	require.NoError(t, err)
	require.Len(t, list.Groups, 1)
	require.Equal(t, "g", list.Groups[0].Group)
	require.Equal(t, "key_1", list.Groups[0].Owner)
}

func TestShardsAreSharedOutAndOthersSendAway(t *testing.T) {
	c := newCluster(t)
	c.start("s", "storage")
	a := c.start("a", "coordinator")
	topic := a.create("orders", 1)
	groups := make([]string, 40)
	for i := range groups {
		groups[i] = fmt.Sprintf("g%d", i)
		retry(t, func() error {
			return a.commit(groups[i], &coordinatorv1.CommittedOffset{TopicId: topic.Id, Offset: int64(i)})
		})
	}
	b := c.start("b", "coordinator")
	// Each group has one owner, both own some, and what a wrote b knows.
	eventually(t, func() bool {
		byA, byB := 0, 0
		for i, g := range groups {
			for _, p := range []*process{a, b} {
				got, err := p.fetch(g)
				if err != nil {
					require.ErrorIs(t, err, shard.ErrNotCoordinator)
					continue
				}
				require.Len(t, got, 1)
				require.EqualValues(t, i, got[0].Offset)
				if p == a {
					byA++
				} else {
					byB++
				}
			}
		}
		return byA+byB == len(groups) && byA > 0 && byB > 0
	})
	a.stop()
	for _, g := range groups {
		retry(t, func() error { _, err := b.fetch(g); return err })
	}
}

func TestAnyCoordinatorTakesChanges(t *testing.T) {
	c := newCluster(t)
	a := c.start("a", "coordinator", "storage")
	b := c.start("b", "coordinator")
	b.create("orders", 1)
	_, err := b.metadata.CreateTopic(t.Context(), &coordinatorv1.CreateTopicRequest{Name: "orders", Partitions: 1})
	require.ErrorIs(t, err, meta.ErrTopicExists)
	require.Contains(t, a.storage.Topics(), "orders")

	a.stop()
	s := c.start("s", "storage")
	b.create("later", 1)
	require.Contains(t, s.storage.Topics(), "later")
}

func TestOffsetsOfADeletedTopicGo(t *testing.T) {
	c := newCluster(t)
	p := c.start("a", "coordinator", "storage")
	topic, kept := p.create("orders", 1), p.create("kept", 1)
	retry(t, func() error {
		return p.commit("g", &coordinatorv1.CommittedOffset{TopicId: topic.Id, Offset: 7}, &coordinatorv1.CommittedOffset{TopicId: kept.Id, Offset: 8})
	})
	_, err := p.metadata.DeleteTopic(t.Context(), &coordinatorv1.DeleteTopicRequest{Name: "orders"})
	require.NoError(t, err)
	eventually(t, func() bool {
		got, err := p.fetch("g")
		require.NoError(t, err)
		return len(got) == 1
	})
	got, err := p.fetch("g")
	require.NoError(t, err)
	require.Equal(t, kept.Id, got[0].TopicId, "those of other topics stay")
	require.EqualValues(t, -1, got[0].ExpireTimeMs, "for good")
}

func TestRestartIsReadyAtOnce(t *testing.T) {
	c := newCluster(t)
	p := c.start("a", "coordinator", "storage")
	topic := p.create("orders", 1)
	retry(t, func() error { return p.commit("g", &coordinatorv1.CommittedOffset{TopicId: topic.Id, Offset: 7}) })
	// The process dies without giving its lease back: as after kill -9 its keys
	// are still there when it starts anew.
	grant, err := p.session.Current(t.Context())
	require.NoError(t, err)
	before, err := c.etcd.TimeToLive(t.Context(), grant.ID, clientv3.WithAttachedKeys())
	require.NoError(t, err)
	p.stop()
	dead, err := c.etcd.Grant(t.Context(), 3600)
	require.NoError(t, err)
	for _, key := range before.Keys {
		value := "a"
		_, err := c.etcd.Put(t.Context(), string(key), value, clientv3.WithLease(dead.ID))
		require.NoError(t, err)
	}
	// Whoever waited for the lease of its earlier life would wait for an hour.
	again := c.start("a", "coordinator", "storage")
	retry(t, func() error { _, err := again.fetch("g"); return err })
}

func TestConfigReportsAllFaults(t *testing.T) {
	cfg := config()
	require.NoError(t, cfg.Validate())
	cfg.Shards, cfg.ShardMaxQueued = 0, -1
	err := cfg.Validate()
	require.ErrorContains(t, err, "coord-shards")
	require.ErrorContains(t, err, "coord-max-queued")
}
