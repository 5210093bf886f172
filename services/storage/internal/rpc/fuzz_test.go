package rpc

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/node"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// fuzzTopic is the topic of all seeds: requests that name it get somewhere.
var fuzzTopic = uuid.UUID{1, 2, 3, 4}

const fuzzInflate = 256 << 10

// fuzzService is a service on a node with a topic of three partitions, of which
// the first has records.
func fuzzService(t testing.TB) *Service {
	t.Helper()
	n, err := node.Open(node.Options{
		FS: memfs.New(), Dir: "store", ID: "n1", Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		Defaults: node.Defaults{SegmentBytes: 4096, MaxMessageBytes: 64 << 10},
		Workers:  2, MaxAwake: 4, MaxReadHandles: 4, IdleAfter: time.Hour, MaxAppendBytes: 128 << 10,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	record := &persistv1.CatalogTopic{TopicId: fuzzTopic[:], Name: "orders", ConfigVersion: 1}
	for i := range int32(3) {
		record.Partitions = append(record.Partitions, &persistv1.CatalogPartition{
			Partition: i, ReplicaId: 1, VoterIds: []uint64{1}, VoterNodes: []string{"n1"},
		})
	}
	require.NoError(t, n.Place([]*persistv1.CatalogTopic{record}))
	s := New(Options{
		Node: n, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""), Now: time.Now,
		MaxFetchWait: time.Millisecond, MaxFetchBytes: 64 << 10, MaxInflate: fuzzInflate,
	})
	out, err := s.Append(context.Background(), fuzzAppend(t, recordbatch.None))
	require.NoError(t, err)
	require.Nil(t, out.GetAppended()[0].GetError())
	return s
}

func fuzzPartition(number int32) *storagev1.Partition {
	return &storagev1.Partition{TopicId: fuzzTopic[:], Partition: number}
}

func fuzzAppend(t testing.TB, codec recordbatch.Codec) *storagev1.AppendRequest {
	t.Helper()
	b := recordbatch.NewBuilder(recordbatch.Options{Codec: codec})
	for range 3 {
		b.Append(1_700_000_000_000, []byte("key"), []byte("value"), []recordbatch.RecordHeader{{Key: "h", Value: []byte("v")}})
	}
	batch, err := b.Finish()
	require.NoError(t, err)
	return &storagev1.AppendRequest{
		Origin:  storagev1.Origin_ORIGIN_CLIENT,
		Appends: []*storagev1.AppendRequest_PartitionAppend{{Partition: fuzzPartition(0), Batches: batch}},
	}
}

// bounded runs a call and checks that what it allocates follows from the size of
// the request and from configuration, not from a number in it.
func bounded(t *testing.T, request []byte, bound int, call func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	require.LessOrEqual(t, allocated, uint64(bound+256*len(request)), "for a request of %d bytes", len(request))
}

func seeds(f *testing.F, requests ...proto.Message) {
	f.Helper()
	for _, request := range requests {
		b, err := proto.Marshal(request)
		require.NoError(f, err)
		f.Add(b)
	}
}

// FuzzAppend: whatever comes, the answer has one element for each partition, what
// was refused is not written, and the partition can be read.
func FuzzAppend(f *testing.F) {
	several := fuzzAppend(f, recordbatch.LZ4)
	several.Appends = append(several.Appends, fuzzAppend(f, recordbatch.Zstd).GetAppends()...)
	several.Appends[1].Partition = fuzzPartition(1)
	owned := fuzzAppend(f, recordbatch.None)
	owned.Origin = storagev1.Origin_ORIGIN_COORDINATOR
	owned.Appends[0].OwnerEpoch = proto.Int64(-1)
	odd := fuzzAppend(f, recordbatch.Gzip)
	odd.Appends[0].CurrentLeaderEpoch = proto.Int32(-5)
	odd.Appends[0].Guard = []byte{1}
	seeds(f, fuzzAppend(f, recordbatch.None), fuzzAppend(f, recordbatch.Snappy), several, owned, odd, &storagev1.AppendRequest{})

	s := fuzzService(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		request := &storagev1.AppendRequest{}
		if proto.Unmarshal(b, request) != nil {
			return
		}
		end := highWatermark(t, s)
		var out *storagev1.AppendResponse
		bounded(t, b, 4<<20+4*fuzzInflate*len(request.GetAppends()), func() {
			var err error
			out, err = s.Append(t.Context(), request)
			require.NoError(t, err)
		})
		require.Len(t, out.GetAppended(), len(request.GetAppends()))
		written := false
		for i, appended := range out.GetAppended() {
			if appended.GetError() != nil {
				require.NotEqual(t, storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED, appended.GetError().GetCode(), appended.GetError().GetMessage())
				continue
			}
			if request.GetAppends()[i].GetPartition().GetPartition() == 0 {
				require.GreaterOrEqual(t, appended.GetBaseOffset(), end)
				written = true
			}
		}
		require.Equal(t, written, highWatermark(t, s) > end)
		fetched, err := s.Fetch(t.Context(), &storagev1.FetchRequest{
			MaxBytes: 1 << 20, Fetches: []*storagev1.FetchRequest_PartitionFetch{{Partition: fuzzPartition(0), Offset: end - 1, MaxBytes: 1 << 20}},
		})
		require.NoError(t, err)
		require.Nil(t, fetched.GetFetched()[0].GetError())
		require.NotEmpty(t, fetched.GetFetched()[0].GetBatches())
	})
}

// highWatermark is that of the first partition.
func highWatermark(t *testing.T, s *Service) int64 {
	t.Helper()
	out, err := s.ListOffsets(t.Context(), &storagev1.ListOffsetsRequest{
		Queries: []*storagev1.ListOffsetsRequest_PartitionQuery{{Partition: fuzzPartition(0), Timestamp: node.Latest}},
	})
	require.NoError(t, err)
	return out.GetOffsets()[0].GetOffset()
}

// FuzzFetch: whatever comes, the answer has one element for each partition and
// whole batches, no more than the node's limit and one batch.
func FuzzFetch(f *testing.F) {
	all := &storagev1.FetchRequest{MaxWaitMs: 1 << 30, MinBytes: 1 << 30, MaxBytes: 1 << 30}
	for i := range int32(4) {
		all.Fetches = append(all.Fetches, &storagev1.FetchRequest_PartitionFetch{Partition: fuzzPartition(i), Offset: int64(i) - 1, MaxBytes: 1 << 30})
	}
	odd := &storagev1.FetchRequest{MaxWaitMs: -1, MinBytes: -1, MaxBytes: -1, Fetches: []*storagev1.FetchRequest_PartitionFetch{{
		Partition: fuzzPartition(0), Offset: -1 << 63, MaxBytes: -1 << 31, Clamp: true,
		CurrentLeaderEpoch: proto.Int32(-7), LastFetchedEpoch: proto.Int32(1<<31 - 1),
	}}}
	seeds(f, all, odd, &storagev1.FetchRequest{}, &storagev1.FetchRequest{Fetches: []*storagev1.FetchRequest_PartitionFetch{{}}})

	s := fuzzService(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		request := &storagev1.FetchRequest{}
		if proto.Unmarshal(b, request) != nil {
			return
		}
		var out *storagev1.FetchResponse
		// Up to three looks: before the wait, in it, and at a wake.
		bounded(t, b, 1<<20+3*s.options.MaxFetchBytes, func() {
			var err error
			out, err = s.Fetch(t.Context(), request)
			require.NoError(t, err)
		})
		require.Len(t, out.GetFetched(), len(request.GetFetches()))
		total := 0
		for _, fetched := range out.GetFetched() {
			total += len(fetched.GetBatches())
			for rest := fetched.GetBatches(); len(rest) > 0; {
				batch, more, err := recordbatch.Next(rest)
				require.NoError(t, err)
				require.NoError(t, recordbatch.CheckCRC(batch))
				rest = more
			}
			if e := fetched.GetError(); e != nil {
				require.NotEqual(t, storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED, e.GetCode(), e.GetMessage())
			}
		}
		require.LessOrEqual(t, total, s.options.MaxFetchBytes+64<<10)
	})
}

// The other calls that name partitions take any numbers too.
func FuzzOffsets(f *testing.F) {
	f.Add(fuzzTopic[:], int32(0), int64(-1), int32(-1))
	f.Add(fuzzTopic[:], int32(1), int64(-6), int32(2))
	f.Add(fuzzTopic[:], int32(2), int64(1)<<62, int32(1<<31-1))
	f.Add([]byte("orders"), int32(-1), int64(-1)<<63, int32(-1<<31))
	s := fuzzService(f)
	f.Fuzz(func(t *testing.T, id []byte, number int32, n int64, epoch int32) {
		p := &storagev1.Partition{TopicId: id, Partition: number}
		listed, err := s.ListOffsets(t.Context(), &storagev1.ListOffsetsRequest{
			Queries: []*storagev1.ListOffsetsRequest_PartitionQuery{{Partition: p, Timestamp: n, CurrentLeaderEpoch: &epoch}},
		})
		require.NoError(t, err)
		require.Len(t, listed.GetOffsets(), 1)
		ends, err := s.EpochEnd(t.Context(), &storagev1.EpochEndRequest{
			Epochs: []*storagev1.EpochEndRequest_PartitionEpoch{{Partition: p, Epoch: epoch}},
		})
		require.NoError(t, err)
		require.Len(t, ends.GetEnds(), 1)
		started, err := s.AdvanceStart(t.Context(), &storagev1.AdvanceStartRequest{
			Starts: []*storagev1.AdvanceStartRequest_PartitionStart{{Partition: p, Offset: n}},
		})
		require.NoError(t, err)
		require.Len(t, started.GetStarted(), 1)
		_, err = s.Fence(t.Context(), &storagev1.FenceRequest{Partition: p, OwnerEpoch: n})
		require.NoError(t, err)
		described, err := s.Describe(t.Context(), &storagev1.DescribeRequest{Partitions: []*storagev1.Partition{p}})
		require.NoError(t, err)
		require.Len(t, described.GetDescriptions(), 1)
	})
}
