package sluice_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/obs"
	"github.com/sluiceio/sluice/services/sluice"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// patience is how long a test waits for what should come soon: much longer than a
// lease lasts.
const patience = time.Minute

// The session of one process: what was acknowledged is there after a restart.
func TestOneNode(t *testing.T) {
	dir := t.TempDir()
	first := start(t, dir, nil, sluice.AllRoles()...)
	first.createTopic(t, "orders", 4)
	written := first.produce(t, "orders", 100)
	first.commit(t, "g", "orders", 2, 7)
	first.stop(t)

	second := start(t, dir, nil, sluice.AllRoles()...)
	require.Equal(t, first.node.ID(), second.node.ID())
	require.Equal(t, written, second.consume(t, "orders", 4))
	require.Equal(t, map[int32]int64{2: 7}, second.offsets(t, "g", "orders"))
}

// Two nodes that share an etcd are a cluster: either answers for both.
func TestTwoNodes(t *testing.T) {
	etcd := startEtcd(t)
	a := start(t, t.TempDir(), etcd, sluice.AllRoles()...)
	b := start(t, t.TempDir(), etcd, sluice.AllRoles()...)

	orders := a.createSpreadTopic(t, b, 8)
	written := a.produce(t, orders, 200)
	maps.Copy(written, b.produce(t, orders, 200))
	require.Len(t, written, 400)
	require.Equal(t, written, a.consume(t, orders, 8))
	require.Equal(t, written, b.consume(t, orders, 8))

	b.commit(t, "g", orders, 5, 3)
	require.Equal(t, map[int32]int64{5: 3}, a.offsets(t, "g", orders))
}

// A node that was given up does not come back, and nobody waits for it.
func TestANodeThatWasGivenUpStaysOut(t *testing.T) {
	etcd := startEtcd(t)
	a := start(t, t.TempDir(), etcd, sluice.AllRoles()...)
	dir := t.TempDir()
	b := start(t, dir, etcd, sluice.AllRoles()...)
	orders := a.createSpreadTopic(t, b, 8)
	admin := adminv1.NewAdminServiceClient(a.conn)
	forget := &adminv1.ForgetNodeRequest{NodeId: b.node.ID()}
	_, err := admin.ForgetNode(t.Context(), forget)
	require.Equal(t, codes.Aborted, status.Code(err), "it is there")

	b.stop(t)
	// The elected coordinator may have gone with it, and on a busy machine its row stays
	// until the lease is over.
	require.Eventually(t, func() bool {
		_, err = admin.ForgetNode(t.Context(), forget)
		return status.Code(err) == codes.Aborted && strings.Contains(err.Error(), orders)
	}, patience, 10*time.Millisecond)
	forget.Force = true
	forgotten, err := admin.ForgetNode(t.Context(), forget)
	require.NoError(t, err)
	require.Contains(t, forgotten.GetLostTopics(), orders)

	again, err := sluice.New(t.Context(), *configure(t, dir, etcd, sluice.AllRoles()...), deps())
	require.NoError(t, err)
	err = again.Run(t.Context(), func() { t.Error("it is ready") })
	require.ErrorContains(t, err, "was given up with forget-node")

	_, err = a.topics.DeleteTopic(t.Context(), &logv1.DeleteTopicRequest{Name: orders})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		nodes, err := admin.ListNodes(t.Context(), &adminv1.ListNodesRequest{})
		require.NoError(t, err)
		deleting := int64(0)
		for _, n := range nodes.GetNodes() {
			deleting += n.GetDeletingTopics()
			require.Equal(t, n.GetId() == b.node.ID(), n.GetForgotten())
		}
		return deleting == 0
	}, patience, 10*time.Millisecond)
	c := start(t, t.TempDir(), etcd, sluice.AllRoles()...)
	a.createSpreadTopic(t, c, 8)
}

// Each service as a process of its own does what all in one do.
func TestANodeForEachService(t *testing.T) {
	etcd := startEtcd(t)
	for _, role := range []sluice.Role{sluice.Storage, sluice.Coordinator, sluice.Registry} {
		n := start(t, t.TempDir(), etcd, role)
		require.Empty(t, n.node.Doors())
	}
	gateway := start(t, t.TempDir(), etcd, sluice.Gateway)
	gateway.createTopic(t, "orders", 2)
	written := gateway.produce(t, "orders", 50)
	require.Equal(t, written, gateway.consume(t, "orders", 2))
	gateway.commit(t, "g", "orders", 0, 1)
	require.Equal(t, map[int32]int64{0: 1}, gateway.offsets(t, "g", "orders"))
}

func TestNewGivesBackWhatItTook(t *testing.T) {
	taken := start(t, t.TempDir(), nil, sluice.AllRoles()...)
	dir := t.TempDir()
	cfg := configure(t, dir, nil, sluice.AllRoles()...)
	cfg.Gateway.BindGRPC = taken.node.Doors()["grpc"]
	_, err := sluice.New(t.Context(), *cfg, deps())
	require.ErrorContains(t, err, "address already in use")

	start(t, dir, nil, sluice.AllRoles()...)
}

func TestHealth(t *testing.T) {
	n := start(t, t.TempDir(), nil, sluice.AllRoles()...)
	answer, err := healthv1.NewHealthClient(n.conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	require.Equal(t, healthv1.HealthCheckResponse_SERVING, answer.GetStatus())
}

// A service without doors shows its metrics where it is told to, and other machines
// only when they are let in.
func TestMetricsOfAServiceWithoutDoors(t *testing.T) {
	cfg := configure(t, t.TempDir(), startEtcd(t), sluice.Storage)
	cfg.BindMetrics = "127.0.0.1:0"
	n := startWith(t, cfg)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{"/metrics": "go_goroutines", "/readyz": ""} {
		resp, err := client.Get("http://" + n.node.Metrics() + path)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 200, resp.StatusCode)
		require.Contains(t, string(body), want)
	}
	cfg.BindMetrics = "0.0.0.0:9101"
	require.ErrorContains(t, cfg.Validate(), "--bind-metrics 0.0.0.0:9101 is reached from other machines")
	cfg.BindMetrics = "9101"
	require.ErrorContains(t, cfg.Validate(), `--bind-metrics "9101": expected host:port`)
}

// Limits follow one another where only one is given, and are refused where they
// contradict.
func TestMessageBytesFollowRecordBytes(t *testing.T) {
	flags := func(args ...string) *sluice.Config {
		cfg := sluice.NewConfig(sluice.AllRoles()...)
		fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		cfg.RegisterFlags(fs)
		require.NoError(t, fs.Parse(args))
		return cfg
	}
	follows := flags("--max-record-bytes", "20000000")
	require.NoError(t, follows.Validate())
	require.Greater(t, follows.Storage.MaxMessageBytes, 20000000)

	contradicts := flags("--max-record-bytes", "20000000", "--max-message-bytes", "20000000")
	require.ErrorContains(t, contradicts.Validate(), "--max-message-bytes is 20000000, too small")
}

// running is a node that serves until the test ends.
type running struct {
	node   *sluice.Node
	cancel context.CancelFunc
	ended  chan error

	// Set for a node with doors.
	conn   *grpc.ClientConn
	topics logv1.TopicServiceClient
	log    logv1.LogServiceClient
	groups logv1.GroupServiceClient
}

func deps() sluice.Deps {
	return sluice.Deps{Logger: slog.New(slog.DiscardHandler), Registry: obs.NewRegistry()}
}

func configure(t *testing.T, dir string, etcd []string, roles ...sluice.Role) *sluice.Config {
	t.Helper()
	cfg := sluice.NewConfig(roles...)
	flags := pflag.NewFlagSet("node", pflag.ContinueOnError)
	cfg.RegisterFlags(flags)
	require.NoError(t, flags.Parse(nil))
	cfg.DataDir = dir
	if cfg.Etcd.Endpoints = etcd; etcd != nil {
		cfg.BindInternal = "127.0.0.1:0"
	}
	if slices.Contains(roles, sluice.Gateway) {
		cfg.Gateway.Bind, cfg.Gateway.BindGRPC = "127.0.0.1:0", "127.0.0.1:0"
	}
	return cfg
}

func start(t *testing.T, dir string, etcd []string, roles ...sluice.Role) *running {
	t.Helper()
	return startWith(t, configure(t, dir, etcd, roles...))
}

func startWith(t *testing.T, cfg *sluice.Config) *running {
	t.Helper()
	node, err := sluice.New(t.Context(), *cfg, deps())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	n := &running{node: node, cancel: cancel, ended: make(chan error, 1)}
	ready := make(chan struct{})
	go func() {
		defer close(n.ended)
		n.ended <- node.Run(ctx, func() { close(ready) })
	}()
	t.Cleanup(func() { n.stop(t) })
	select {
	case <-ready:
	case err := <-n.ended:
		require.NoError(t, err)
	case <-time.After(patience):
		require.FailNow(t, "the node does not get ready")
	}
	if address := node.Doors()["grpc"]; address != "" {
		n.conn, err = grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(t, err)
		n.topics = logv1.NewTopicServiceClient(n.conn)
		n.log = logv1.NewLogServiceClient(n.conn)
		n.groups = logv1.NewGroupServiceClient(n.conn)
	}
	return n
}

// stop stops the node cleanly; again is nothing.
func (n *running) stop(t *testing.T) {
	t.Helper()
	if n.conn != nil {
		n.conn.Close()
	}
	n.cancel()
	require.NoError(t, <-n.ended)
}

func (n *running) createTopic(t *testing.T, name string, partitions int32) {
	t.Helper()
	_, err := n.topics.CreateTopic(t.Context(), &logv1.CreateTopicRequest{Name: name, Partitions: &partitions})
	require.NoError(t, err)
}

// createSpreadTopic creates topics until the elected coordinator has heard of
// both nodes, and returns the name of the first that is on both.
func (n *running) createSpreadTopic(t *testing.T, other *running, partitions int32) string {
	t.Helper()
	var name string
	tries := 0
	require.Eventually(t, func() bool {
		tries++
		name = fmt.Sprintf("orders-%d", tries)
		if _, err := n.topics.CreateTopic(t.Context(), &logv1.CreateTopicRequest{Name: name, Partitions: &partitions}); err != nil {
			return false
		}
		topic, err := n.topics.GetTopic(t.Context(), &logv1.GetTopicRequest{Name: name})
		if err != nil {
			return false
		}
		leaders := map[string]int{}
		for _, partition := range topic.GetPartitions() {
			leaders[partition.GetLeader()]++
		}
		return leaders[n.node.ID()] > 0 && leaders[other.node.ID()] > 0
	}, patience, 10*time.Millisecond)
	return name
}

// place is where a record stands.
type place struct {
	partition int32
	offset    int64
}

// produce writes records and returns their values by place.
func (n *running) produce(t *testing.T, topic string, records int) map[place]string {
	t.Helper()
	request := &logv1.ProduceRequest{Topic: topic}
	for i := range records {
		request.Records = append(request.Records, &logv1.ProduceRecord{
			Key: fmt.Appendf(nil, "key %d", i), Value: fmt.Appendf(nil, "%s %d", n.node.ID(), i),
		})
	}
	response, err := n.log.Produce(t.Context(), request)
	require.NoError(t, err)
	written := map[place]string{}
	for i, result := range response.GetResults() {
		written[place{result.GetPartition(), result.GetOffset()}] = string(request.GetRecords()[i].GetValue())
	}
	return written
}

func (n *running) consume(t *testing.T, topic string, partitions int32) map[place]string {
	t.Helper()
	read := map[place]string{}
	for partition := range partitions {
		response, err := n.log.Consume(t.Context(), &logv1.ConsumeRequest{
			Topic: topic, Partition: &partition, Offset: new(int64), MaxRecords: new(int32(10_000)),
		})
		require.NoError(t, err)
		for _, record := range response.GetRecords() {
			read[place{record.GetPartition(), record.GetOffset()}] = string(record.GetValue())
		}
	}
	return read
}

func (n *running) commit(t *testing.T, group, topic string, partition int32, offset int64) {
	t.Helper()
	_, err := n.groups.CommitOffset(t.Context(), &logv1.CommitOffsetRequest{
		Group: group, Topic: topic, Partition: &partition, Offset: &offset,
	})
	require.NoError(t, err)
}

func (n *running) offsets(t *testing.T, group, topic string) map[int32]int64 {
	t.Helper()
	response, err := n.groups.GetOffsets(t.Context(), &logv1.GetOffsetsRequest{Group: group})
	require.NoError(t, err)
	return response.GetOffsets()[topic].GetPartitions()
}

// startEtcd starts an etcd that is reached over TCP.
func startEtcd(t *testing.T) []string {
	t.Helper()
	return startEtcdWith(t, func(*embed.Config) {})
}

func startEtcdWith(t *testing.T, configure func(*embed.Config)) []string {
	t.Helper()
	etcd := runEtcd(t, configure)
	t.Cleanup(etcd.Close)
	return []string{etcd.Clients[0].Addr().String()}
}

// runEtcd starts an etcd that its caller closes.
func runEtcd(t *testing.T, configure func(*embed.Config)) *embed.Etcd {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(t.TempDir(), "etcd")
	free := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = slices.Clone(free), slices.Clone(free)
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = free, free
	cfg.InitialCluster = cfg.Name + "=" + free[0].String()
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.UnsafeNoFsync = true // it outlives no crash
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	configure(cfg)
	etcd, err := embed.StartEtcd(cfg)
	require.NoError(t, err)
	<-etcd.Server.ReadyNotify()
	return etcd
}
