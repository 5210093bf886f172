package storage_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/cold/coldtest"
)

// coldSuite is a service of which nothing stays on disk that is in cold storage.
func coldSuite(t *testing.T) (*suite, *coldtest.Store) {
	store := coldtest.New()
	cfg := config("data")
	cfg.ColdLocalRetentionMs = 0
	cfg.ColdInterval = 0 // passes are asked for
	return serveCold(t, memfs.New(), cfg, store, overTCP), store
}

// runRetention runs the pass that operators run, and expects it to succeed.
func (s *suite) runRetention() {
	s.t.Helper()
	response, err := s.storage.RunPass(s.t.Context(), &storagev1.RunPassRequest{Pass: storagev1.Pass_PASS_RETENTION})
	require.NoError(s.t, err)
	require.Empty(s.t, response.GetFailures())
}

func (t *topic) describe(number int32) *storagev1.DescribeResponse_PartitionDescription {
	t.s.t.Helper()
	response, err := t.s.storage.Describe(t.s.t.Context(), &storagev1.DescribeRequest{Partitions: []*storagev1.Partition{t.partition(number)}})
	require.NoError(t.s.t, err)
	require.Len(t.s.t, response.GetDescriptions(), 1)
	return response.GetDescriptions()[0]
}

func (t *topic) listCold(request *storagev1.ListColdSegmentsRequest) *storagev1.ListColdSegmentsResponse {
	t.s.t.Helper()
	response, err := t.s.storage.ListColdSegments(t.s.t.Context(), request)
	require.NoError(t.s.t, err)
	return response
}

// consume reads a partition as a consumer does, with small fetches, and returns the
// values by their offsets.
func (t *topic) consume(number int32, offset int64) map[int64]string {
	t.s.t.Helper()
	all := map[int64]string{}
	for {
		f := t.from(number, offset)
		f.MaxBytes = 3000
		out := t.s.fetchOne(f)
		require.Nil(t.s.t, out.GetError())
		if out.GetNextOffset() == offset {
			require.Equal(t.s.t, out.GetHighWatermark(), offset)
			return all
		}
		for at, value := range valuesOf(t.s.t, out.GetBatches()) {
			if at >= offset {
				require.NotContains(t.s.t, all, at)
				all[at] = value
			}
		}
		offset = out.GetNextOffset()
	}
}

// value is that of a series without labels.
func (s *suite) value(name string) int64 {
	s.t.Helper()
	families, err := s.series.Gather()
	require.NoError(s.t, err)
	for _, family := range families {
		if family.GetName() == name {
			m := family.GetMetric()[0]
			return int64(m.GetGauge().GetValue() + m.GetCounter().GetValue())
		}
	}
	require.Fail(s.t, "no series", name)
	return 0
}

// Records go to cold storage, leave the disk, are read from there without the
// reader noticing, and go from there with retention and with their topic.
func TestColdStorage(t *testing.T) {
	s, store := coldSuite(t)
	topic := s.topic(2, nil)
	want := map[int64]string{}
	for i := range 60 {
		value := fmt.Sprintf("%d-%s", i, strings.Repeat("v", i*17%400))
		topic.written(0, value)
		want[int64(i)] = value
	}
	topic.written(1, "alone")
	before := topic.describe(0)
	require.Greater(t, before.GetSegmentCount(), int32(3))
	require.Equal(t, []int64{0, 0}, []int64{before.GetLocalStartOffset(), before.GetColdSegmentCount()})

	s.runRetention()
	after := topic.describe(0)
	require.Equal(t, int32(1), after.GetSegmentCount())
	require.Equal(t, int64(before.GetSegmentCount()-1), after.GetColdSegmentCount())
	require.Equal(t, before.GetSizeBytes(), after.GetSizeBytes()+after.GetColdSizeBytes())
	require.Equal(t, int64(0), after.GetLogStartOffset())
	local := after.GetLocalStartOffset()
	require.Positive(t, local)
	require.Equal(t, want, topic.consume(0, 0))
	require.Equal(t, map[int64]string{0: "alone"}, topic.consume(1, 0))

	list := topic.listCold(&storagev1.ListColdSegmentsRequest{Partition: topic.partition(0)})
	require.Nil(t, list.GetError())
	require.Equal(t, []int64{0, local}, []int64{list.GetLogStartOffset(), list.GetLocalStartOffset()})
	require.Empty(t, list.GetUploads())
	require.False(t, list.GetMore())
	next, bytes := int64(0), int64(0)
	var names []string
	for _, segment := range list.GetSegments() {
		require.Equal(t, next, segment.GetBaseOffset())
		require.NotZero(t, segment.GetCrc32C())
		require.Positive(t, segment.GetUploadedAtMs())
		require.Equal(t, base, segment.GetMaxTimestampMs())
		next, bytes = segment.GetLastOffset()+1, bytes+segment.GetSizeBytes()
		names = append(names, segment.GetObject())
	}
	require.Equal(t, []int64{local, after.GetColdSizeBytes()}, []int64{next, bytes})
	require.Equal(t, store.Names(), names)
	require.Equal(t, int64(len(names)), s.value("sluice_cold_segments"))
	require.Equal(t, bytes, s.value("sluice_cold_bytes"))
	require.Equal(t, int64(len(names)), s.value("sluice_cold_uploaded_segments_total"))
	require.Zero(t, s.value("sluice_cold_pending_segments"))
	require.Positive(t, s.value("sluice_cold_read_bytes_total"))

	page := topic.listCold(&storagev1.ListColdSegmentsRequest{Partition: topic.partition(0), FromOffset: list.GetSegments()[1].GetLastOffset(), MaxSegments: 1})
	require.Len(t, page.GetSegments(), 1)
	require.Equal(t, names[1], page.GetSegments()[0].GetObject())
	require.Equal(t, len(names) > 2, page.GetMore())

	offsets, err := s.storage.ListOffsets(t.Context(), &storagev1.ListOffsetsRequest{Queries: []*storagev1.ListOffsetsRequest_PartitionQuery{
		{Partition: topic.partition(0), Timestamp: -4}, {Partition: topic.partition(0), Timestamp: -5},
		{Partition: topic.partition(0), Timestamp: -6}, {Partition: topic.partition(0), Timestamp: base},
		{Partition: topic.partition(1), Timestamp: -5},
	}})
	require.NoError(t, err)
	for i, wanted := range []int64{local, local - 1, local, 0, -1} {
		require.Nil(t, offsets.GetOffsets()[i].GetError())
		require.Equal(t, wanted, offsets.GetOffsets()[i].GetOffset(), i)
	}

	_, err = s.storage.AdvanceStart(t.Context(), &storagev1.AdvanceStartRequest{Starts: []*storagev1.AdvanceStartRequest_PartitionStart{
		{Partition: topic.partition(0), Offset: list.GetSegments()[1].GetBaseOffset()},
	}})
	require.NoError(t, err)
	s.runRetention()
	require.Equal(t, names[1:], store.Names())

	_, err = s.replicas.RemoveReplicas(t.Context(), &storagev1.RemoveReplicasRequest{TopicIds: [][]byte{topic.id[:]}})
	require.NoError(t, err)
	s.runRetention()
	require.Empty(t, store.Names())
}

// Who reads what is in a store that is away, or damaged, is told so, and nothing of
// where it is.
func TestColdStorageAwayOrDamaged(t *testing.T) {
	s, store := coldSuite(t)
	topic := s.topic(1, nil)
	for range 30 {
		topic.written(0, strings.Repeat("v", 300))
	}
	s.runRetention()
	store.Hook(func(context.Context, coldtest.Op, string) coldtest.Fault {
		return coldtest.Fault{Err: fmt.Errorf("connect to secret.host: %w", coldtest.ErrFault)}
	})
	out := s.fetchOne(topic.from(0, 0))
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_COLD_UNAVAILABLE, out.GetError())
	require.NotContains(t, out.GetError().GetMessage(), "secret")
	require.Empty(t, out.GetBatches())
	require.Nil(t, s.fetchOne(topic.from(0, topic.describe(0).GetLocalStartOffset())).GetError())

	store.Hook(nil)
	for _, name := range store.Names() {
		store.Object(name)[70] ^= 1
	}
	out = s.fetchOne(topic.from(0, 0))
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_COLD_DAMAGED, out.GetError())
	require.NotContains(t, out.GetError().GetMessage(), topic.id.String())
	require.Empty(t, out.GetBatches())
	topic.written(0, "the partition goes on")
}

// A fetch of several partitions waits for cold storage only when nothing else is
// at hand.
func TestColdStorageHoldsNobodyUp(t *testing.T) {
	s, store := coldSuite(t)
	topic := s.topic(2, nil)
	for range 30 {
		topic.written(0, strings.Repeat("v", 300))
	}
	topic.written(1, "hot")
	s.runRetention()
	asked, release := make(chan struct{}, 100), make(chan struct{})
	store.Hook(func(ctx context.Context, _ coldtest.Op, _ string) coldtest.Fault {
		asked <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return coldtest.Fault{}
	})
	both := &storagev1.FetchRequest{
		MaxWaitMs: 1000, MinBytes: 1,
		Fetches: []*storagev1.FetchRequest_PartitionFetch{topic.from(0, 0), topic.from(1, 0)},
	}
	fetched, err := s.fetch(t.Context(), both)
	require.NoError(t, err)
	require.Nil(t, fetched[0].GetError())
	require.Empty(t, fetched[0].GetBatches())
	require.Equal(t, int64(0), fetched[0].GetNextOffset())
	require.Equal(t, map[int64]string{0: "hot"}, valuesOf(t, fetched[1].GetBatches()))
	<-asked

	alone := make(chan []*storagev1.FetchResponse_PartitionFetched, 1)
	go func() {
		fetched, err := s.fetch(context.Background(), &storagev1.FetchRequest{
			Fetches: []*storagev1.FetchRequest_PartitionFetch{topic.from(1, 1), topic.from(0, 0)},
		})
		if err != nil {
			t.Errorf("fetch: %v", err)
		}
		alone <- fetched
	}()
	close(release)
	require.NotEmpty(t, (<-alone)[1].GetBatches(), "who finds nothing else waits for it, whatever the time")

	ctx, cancel := context.WithCancel(t.Context())
	store.Hook(func(ctx context.Context, _ coldtest.Op, _ string) coldtest.Fault {
		cancel()
		<-ctx.Done()
		return coldtest.Fault{}
	})
	last := topic.listCold(&storagev1.ListColdSegmentsRequest{Partition: topic.partition(0)}).GetSegments()
	_, err = s.fetch(ctx, &storagev1.FetchRequest{Fetches: []*storagev1.FetchRequest_PartitionFetch{
		topic.from(0, last[len(last)-1].GetBaseOffset()),
	}})
	require.Error(t, err, "and no longer than he wants to")
}

func TestListColdSegmentsOfNothing(t *testing.T) {
	s, _ := coldSuite(t)
	topic := s.topic(1, nil)
	list := topic.listCold(&storagev1.ListColdSegmentsRequest{Partition: topic.partition(0)})
	require.Nil(t, list.GetError())
	require.Empty(t, list.GetSegments())
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION,
		topic.listCold(&storagev1.ListColdSegmentsRequest{Partition: topic.partition(7)}).GetError())
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST,
		topic.listCold(&storagev1.ListColdSegmentsRequest{}).GetError())
}
