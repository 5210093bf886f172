package storage_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

func (s *suite) list(p *storagev1.Partition, timestamp int64) *storagev1.ListOffsetsResponse_PartitionOffset {
	s.t.Helper()
	response, err := s.storage.ListOffsets(s.t.Context(), &storagev1.ListOffsetsRequest{
		Queries: []*storagev1.ListOffsetsRequest_PartitionQuery{{Partition: p, Timestamp: timestamp}},
	})
	require.NoError(s.t, err)
	require.Len(s.t, response.GetOffsets(), 1)
	return response.GetOffsets()[0]
}

func (s *suite) advance(p *storagev1.Partition, offset int64) *storagev1.AdvanceStartResponse_PartitionStarted {
	s.t.Helper()
	response, err := s.storage.AdvanceStart(s.t.Context(), &storagev1.AdvanceStartRequest{
		Starts: []*storagev1.AdvanceStartRequest_PartitionStart{{Partition: p, Offset: offset}},
	})
	require.NoError(s.t, err)
	require.Len(s.t, response.GetStarted(), 1)
	return response.GetStarted()[0]
}

func TestListOffsets(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(2, nil)
		b := recordbatch.NewBuilder(recordbatch.Options{})
		for _, timestamp := range []int64{base + 100, base + 300, base + 200} {
			b.Append(timestamp, nil, []byte("x"), nil)
		}
		batch, err := b.Finish()
		require.NoError(t, err)
		require.Nil(t, orders.appendOne(0, batch).GetError())

		type listed struct{ offset, timestamp int64 }
		for asked, want := range map[int64]listed{
			-1: {3, -1}, -2: {0, -1}, -3: {1, base + 300}, -4: {0, -1}, -5: {-1, -1}, -6: {-1, -1},
			0: {0, base + 100}, base + 100: {0, base + 100}, base + 101: {1, base + 300}, base + 300: {1, base + 300}, base + 301: {-1, -1},
		} {
			out := s.list(orders.partition(0), asked)
			require.Nil(t, out.GetError())
			require.Equal(t, want, listed{out.GetOffset(), out.GetTimestamp()}, "asked for %d", asked)
			if want.offset < 0 {
				require.Equal(t, int32(-1), out.GetLeaderEpoch())
			} else {
				require.Positive(t, out.GetLeaderEpoch())
			}
		}
		for asked, want := range map[int64]int64{-1: 0, -2: 0, -3: -1, -4: 0, -5: -1, -6: -1, 0: -1} {
			out := s.list(orders.partition(1), asked)
			require.Nil(t, out.GetError())
			require.Equal(t, want, out.GetOffset(), "of an empty log, asked for %d", asked)
		}
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION, s.list(orders.partition(2), -1).GetError())

		response, err := s.storage.ListOffsets(t.Context(), &storagev1.ListOffsetsRequest{
			Queries: []*storagev1.ListOffsetsRequest_PartitionQuery{
				{Partition: orders.partition(0), Timestamp: -1, CurrentLeaderEpoch: proto.Int32(1 << 30)},
				{Partition: orders.partition(0), Timestamp: -1},
			},
		})
		require.NoError(t, err)
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_LEADER_EPOCH, response.GetOffsets()[0].GetError())
		require.Equal(t, int64(3), response.GetOffsets()[1].GetOffset())
	})
}

func TestEpochEnd(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(2, nil)
		orders.written(0, "a", "b")
		epoch := s.list(orders.partition(0), -1).GetLeaderEpoch()
		response, err := s.storage.EpochEnd(t.Context(), &storagev1.EpochEndRequest{
			Epochs: []*storagev1.EpochEndRequest_PartitionEpoch{
				{Partition: orders.partition(0), Epoch: epoch},
				{Partition: orders.partition(0), Epoch: epoch + 5},
				{Partition: orders.partition(1), Epoch: 1},
				{Partition: orders.partition(5), Epoch: 1},
				{Partition: orders.partition(0), Epoch: epoch, CurrentLeaderEpoch: proto.Int32(epoch - 1)},
			},
		})
		require.NoError(t, err)
		ends := response.GetEnds()
		require.Len(t, ends, 5)
		require.Nil(t, ends[0].GetError())
		require.Equal(t, epoch, ends[0].GetEpoch())
		require.Equal(t, int64(2), ends[0].GetEndOffset())
		for _, end := range ends[1:3] { // newer than any, and of an empty log
			require.Nil(t, end.GetError())
			require.Equal(t, int32(-1), end.GetEpoch())
			require.Equal(t, int64(-1), end.GetEndOffset())
		}
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION, ends[3].GetError())
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH, ends[4].GetError())
	})
}

func TestAdvanceStart(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(2, nil)
		orders.written(0, "a", "b", "c", "d")
		to := func(offset int64) *storagev1.AdvanceStartResponse_PartitionStarted {
			return s.advance(orders.partition(0), offset)
		}
		started := to(2)
		require.Nil(t, started.GetError())
		require.Equal(t, int64(2), started.GetLogStartOffset())
		require.Equal(t, int64(2), to(1).GetLogStartOffset(), "never back")
		require.Equal(t, int64(2), to(0).GetLogStartOffset())
		for _, beyond := range []int64{5, -2, 1 << 50} {
			requireCode(t, storagev1.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE, to(beyond).GetError())
		}
		require.Equal(t, int64(2), s.list(orders.partition(0), -2).GetOffset())
		require.Equal(t, int64(4), to(-1).GetLogStartOffset(), "the high watermark")
		require.Empty(t, s.fetchOne(orders.from(0, 4)).GetBatches())
		out := orders.written(0, "e")
		require.Equal(t, int64(4), out.GetBaseOffset(), "offsets are never used again")
		require.Equal(t, int64(4), out.GetLogStartOffset())

		require.Equal(t, int64(0), s.advance(orders.partition(1), -1).GetLogStartOffset(), "of an empty log")
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION, s.advance(orders.partition(2), 0).GetError())
	})
}

func TestDescribe(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(2, nil)
		shard := s.internal()
		_, err := s.replicas.Fence(t.Context(), &storagev1.FenceRequest{Partition: shard.partition(0), OwnerEpoch: 9})
		require.NoError(t, err)
		size := 0
		for range 100 {
			batch := batchOf(t, "some value that fills a segment")
			size += len(batch)
			require.Nil(t, orders.appendOne(0, batch).GetError())
		}
		s.advance(orders.partition(0), 3)

		response, err := s.storage.Describe(t.Context(), &storagev1.DescribeRequest{
			Partitions: []*storagev1.Partition{orders.partition(0), orders.partition(1), shard.partition(0), orders.partition(9)},
		})
		require.NoError(t, err)
		d := response.GetDescriptions()
		require.Len(t, d, 4)
		full := d[0]
		require.Nil(t, full.GetError())
		require.Equal(t, int64(3), full.GetLogStartOffset())
		require.Equal(t, int64(100), full.GetHighWatermark())
		require.Equal(t, int64(100), full.GetLastStableOffset())
		require.Equal(t, int64(100), full.GetLogEndOffset())
		require.Greater(t, full.GetSegmentCount(), int32(1))
		require.Equal(t, int64(size), full.GetSizeBytes())
		require.Equal(t, "leader", full.GetRole())
		require.Equal(t, "n1", full.GetLeader().GetNode())
		require.Equal(t, int64(full.GetLeader().GetEpoch()), full.GetTerm())
		require.Positive(t, full.GetTerm())
		require.Equal(t, full.GetCommitIndex(), full.GetLastIndex())
		require.Len(t, full.GetReplicas(), 1)
		require.Equal(t, uint64(1), full.GetReplicas()[0].GetReplicaId())
		require.Equal(t, full.GetLastIndex(), full.GetReplicas()[0].GetMatchIndex())

		empty := d[1]
		require.Nil(t, empty.GetError())
		require.Equal(t, "leader", empty.GetRole())
		require.Zero(t, empty.GetHighWatermark())
		require.Zero(t, empty.GetSizeBytes())
		require.Equal(t, int64(9), d[2].GetOwnerEpoch())
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION, d[3].GetError())

		all, err := s.storage.Describe(t.Context(), &storagev1.DescribeRequest{})
		require.NoError(t, err)
		require.Len(t, all.GetDescriptions(), 3)
		require.True(t, slices.ContainsFunc(all.GetDescriptions(), func(d *storagev1.DescribeResponse_PartitionDescription) bool {
			return uuid.UUID(d.GetPartition().GetTopicId()) == shard.id
		}))
	})
}
