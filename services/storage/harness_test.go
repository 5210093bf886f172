package storage_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/rpc"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// patience is how long a test waits for what should come at once.
const patience = 20 * time.Second

// clock is a wall clock that a test sets.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ns.Store(time.Now().UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.ns.Load()) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

// defaults has the defaults of the flags.
func defaults(dir string) (c storage.Config) {
	c.RegisterFlags(pflag.NewFlagSet("", pflag.PanicOnError))
	c.Dir = dir
	return c
}

// config has small segments.
func config(dir string) storage.Config {
	c := defaults(dir)
	c.SegmentBytes = 4096
	c.MaxMessageBytes = 64 << 10
	c.MaxAppendBytes = 256 << 10
	c.MaxFetchBytes = 1 << 20
	c.Workers = 8
	return c
}

// suite is a storage service, reached over one kind of connection.
type suite struct {
	t        *testing.T
	storage  storagev1.StorageServiceClient
	replicas storagev1.ReplicaServiceClient
	service  *storage.Service
	fs       vfs.FS
	series   prometheus.Gatherer
	// stop stops the service and returns what Run did.
	stop func() error
}

// connection connects to a service; what it takes is given back at the end of the
// test, before the service stops.
type connection func(t *testing.T, service *storage.Service) grpc.ClientConnInterface

func overLocal(t *testing.T, service *storage.Service) grpc.ClientConnInterface {
	local := rpc.NewLocal(rpc.Options{Logger: slog.New(slog.DiscardHandler)})
	service.Register(local)
	t.Cleanup(local.Stop)
	return local
}

func overTCP(t *testing.T, service *storage.Service) grpc.ClientConnInterface {
	server := rpc.NewServer(rpc.ServerOptions{Options: rpc.Options{Logger: slog.New(slog.DiscardHandler)}})
	service.Register(server)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	dialer := rpc.NewTCP(rpc.TCPOptions{})
	t.Cleanup(func() {
		if err := dialer.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	conn, err := dialer.Conn(t.Context(), "n1", listener.Addr().String())
	require.NoError(t, err)
	return conn
}

// serve starts a service over a file system.
func serve(t *testing.T, fsys vfs.FS, cfg storage.Config, connect connection) *suite {
	t.Helper()
	return serveCold(t, fsys, cfg, nil, connect)
}

// serveCold starts a service with cold storage.
func serveCold(t *testing.T, fsys vfs.FS, cfg storage.Config, cold blob.Store, connect connection) *suite {
	t.Helper()
	return serveDeps(t, cfg, storage.Deps{FS: fsys, Cold: cold}, connect)
}

// serveDeps starts a service with what is in deps, and the rest of what it needs.
func serveDeps(t *testing.T, cfg storage.Config, deps storage.Deps, connect connection) *suite {
	t.Helper()
	registry := prometheus.NewRegistry()
	deps.Registerer, deps.NodeID = registry, "n1"
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	service, err := storage.New(cfg, deps)
	require.NoError(t, err)
	require.Error(t, service.Ready(), "it does not run yet")
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- service.Run(ctx) }()
	var once sync.Once
	s := &suite{t: t, service: service, fs: deps.FS, series: registry}
	s.stop = func() (err error) {
		once.Do(func() {
			cancel()
			err = <-stopped
		})
		return err
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	require.Eventually(t, func() bool { return service.Ready() == nil }, patience, time.Millisecond)
	conn := connect(t, service)
	s.storage, s.replicas = storagev1.NewStorageServiceClient(conn), storagev1.NewReplicaServiceClient(conn)
	return s
}

// onEach runs a test over each kind of connection, and once on a real disk.
func onEach(t *testing.T, test func(t *testing.T, s *suite)) {
	t.Run("local", func(t *testing.T) { test(t, serve(t, memfs.New(), config("data"), overLocal)) })
	t.Run("tcp", func(t *testing.T) { test(t, serve(t, memfs.New(), config("data"), overTCP)) })
	t.Run("disk", func(t *testing.T) { test(t, serve(t, vfs.OS, config(t.TempDir()), overLocal)) })
}

// topic is a topic on the node.
type topic struct {
	s  *suite
	id uuid.UUID
}

func topicPlacement(id uuid.UUID, partitions int, config map[string]string, version int64) *storagev1.PlaceReplicasRequest_TopicPlacement {
	t := &storagev1.PlaceReplicasRequest_TopicPlacement{TopicId: id[:], Name: "orders", Config: config, ConfigVersion: version}
	for i := range partitions {
		t.Partitions = append(t.Partitions, &storagev1.PlaceReplicasRequest_PartitionPlacement{
			Partition: int32(i), ReplicaId: 1,
			Voters: []*storagev1.PlaceReplicasRequest_Voter{{ReplicaId: 1, Node: "n1"}},
		})
	}
	return t
}

func (s *suite) place(placements ...*storagev1.PlaceReplicasRequest_TopicPlacement) error {
	_, err := s.replicas.PlaceReplicas(s.t.Context(), &storagev1.PlaceReplicasRequest{Topics: placements})
	return err
}

// topic places a topic.
func (s *suite) topic(partitions int, config map[string]string) *topic {
	s.t.Helper()
	id := uuid.New()
	require.NoError(s.t, s.place(topicPlacement(id, partitions, config, 1)))
	return &topic{s: s, id: id}
}

// internal places a topic of the system.
func (s *suite) internal() *topic {
	s.t.Helper()
	id := uuid.New()
	p := topicPlacement(id, 1, nil, 1)
	p.Internal = true
	require.NoError(s.t, s.place(p))
	return &topic{s: s, id: id}
}

func (t *topic) partition(number int32) *storagev1.Partition {
	return &storagev1.Partition{TopicId: t.id[:], Partition: number}
}

// base is the timestamp of the records of batchOf: not far from the clock.
var base = time.Now().UnixMilli()

func batchOf(t testing.TB, values ...string) []byte {
	t.Helper()
	b := recordbatch.NewBuilder(recordbatch.Options{})
	for _, value := range values {
		b.Append(base, []byte("key"), []byte(value), nil)
	}
	batch, err := b.Finish()
	require.NoError(t, err)
	return batch
}

// appendOne appends to one partition on a client's behalf.
func (t *topic) appendOne(number int32, batches ...[]byte) *storagev1.AppendResponse_PartitionAppended {
	t.s.t.Helper()
	return t.s.append(storagev1.Origin_ORIGIN_CLIENT, t.to(number, batches...))
}

func (t *topic) to(number int32, batches ...[]byte) *storagev1.AppendRequest_PartitionAppend {
	a := &storagev1.AppendRequest_PartitionAppend{Partition: t.partition(number)}
	for _, batch := range batches {
		a.Batches = append(a.Batches, batch...)
	}
	return a
}

func (s *suite) append(origin storagev1.Origin, a *storagev1.AppendRequest_PartitionAppend) *storagev1.AppendResponse_PartitionAppended {
	s.t.Helper()
	response, err := s.storage.Append(s.t.Context(), &storagev1.AppendRequest{
		Origin: origin, Appends: []*storagev1.AppendRequest_PartitionAppend{a},
	})
	require.NoError(s.t, err)
	require.Len(s.t, response.GetAppended(), 1)
	return response.GetAppended()[0]
}

// written appends and expects success.
func (t *topic) written(number int32, values ...string) *storagev1.AppendResponse_PartitionAppended {
	t.s.t.Helper()
	out := t.appendOne(number, batchOf(t.s.t, values...))
	require.Nil(t.s.t, out.GetError())
	return out
}

// from is a fetch of one partition without limits.
func (t *topic) from(number int32, offset int64) *storagev1.FetchRequest_PartitionFetch {
	return &storagev1.FetchRequest_PartitionFetch{Partition: t.partition(number), Offset: offset, MaxBytes: 1 << 20}
}

func (s *suite) fetch(ctx context.Context, request *storagev1.FetchRequest) ([]*storagev1.FetchResponse_PartitionFetched, error) {
	request.Isolation = storagev1.Isolation_ISOLATION_READ_UNCOMMITTED
	if request.MaxBytes == 0 {
		request.MaxBytes = 1 << 20
	}
	response, err := s.storage.Fetch(ctx, request)
	if err == nil {
		require.Len(s.t, response.GetFetched(), len(request.GetFetches()))
	}
	return response.GetFetched(), err
}

// fetchOne reads one partition without waiting.
func (s *suite) fetchOne(f *storagev1.FetchRequest_PartitionFetch) *storagev1.FetchResponse_PartitionFetched {
	s.t.Helper()
	fetched, err := s.fetch(s.t.Context(), &storagev1.FetchRequest{Fetches: []*storagev1.FetchRequest_PartitionFetch{f}})
	require.NoError(s.t, err)
	return fetched[0]
}

// valuesOf are the values of batches, with their offsets.
func valuesOf(t *testing.T, batches []byte) map[int64]string {
	t.Helper()
	values := map[int64]string{}
	for len(batches) > 0 {
		batch, rest, err := recordbatch.Next(batches)
		require.NoError(t, err)
		require.NoError(t, recordbatch.CheckCRC(batch))
		for record, err := range recordbatch.Records(batch, recordbatch.Limits{}) {
			require.NoError(t, err)
			values[record.Offset] = string(record.Value)
		}
		batches = rest
	}
	return values
}

func requireCode(t *testing.T, want storagev1.ErrorCode, got *storagev1.PartitionError, args ...any) {
	t.Helper()
	require.NotNil(t, got, args...)
	require.Equal(t, want.String(), got.GetCode().String(), got.GetMessage())
	require.NotEmpty(t, got.GetMessage())
}
