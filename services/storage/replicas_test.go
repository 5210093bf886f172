package storage_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
)

func (s *suite) remove(ids ...uuid.UUID) error {
	request := &storagev1.RemoveReplicasRequest{}
	for _, id := range ids {
		request.TopicIds = append(request.TopicIds, id[:])
	}
	_, err := s.replicas.RemoveReplicas(s.t.Context(), request)
	return err
}

func TestPlaceReplicas(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		id := uuid.New()
		orders := &topic{s: s, id: id}
		require.NoError(t, s.place(topicPlacement(id, 1, map[string]string{"max.message.bytes": "500"}, 3)))
		orders.written(0, "a")
		tooLarge := func() bool { return orders.appendOne(0, largeBatches(t, 1, 600)...).GetError() != nil }
		require.True(t, tooLarge())

		require.NoError(t, s.place(topicPlacement(id, 1, map[string]string{"max.message.bytes": "500"}, 3)), "again")
		require.Equal(t, int64(1), orders.written(0, "b").GetBaseOffset(), "what is there stays")
		require.NoError(t, s.place(topicPlacement(id, 1, map[string]string{"max.message.bytes": "5000"}, 2)))
		require.True(t, tooLarge(), "an older config never replaces a newer one")
		require.NoError(t, s.place(topicPlacement(id, 3, map[string]string{"max.message.bytes": "5000"}, 4)))
		require.False(t, tooLarge())
		require.Equal(t, int64(0), orders.written(2, "a").GetBaseOffset(), "partitions may be added")
	})
}

func TestPlacementsThatAreRefused(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(1, nil)
		orders.written(0, "a")
		for name, c := range map[string]struct {
			change func(*storagev1.PlaceReplicasRequest_TopicPlacement)
			kind   errs.Kind
		}{
			"another replica id": {func(p *storagev1.PlaceReplicasRequest_TopicPlacement) {
				p.TopicId = orders.id[:]
				p.Partitions[0].ReplicaId, p.Partitions[0].Voters[0].ReplicaId = 2, 2
			}, errs.InvalidArgument},
			"no UUID":              {func(p *storagev1.PlaceReplicasRequest_TopicPlacement) { p.TopicId = []byte("x") }, errs.InvalidArgument},
			"a negative number":    {func(p *storagev1.PlaceReplicasRequest_TopicPlacement) { p.Partitions[0].Partition = -1 }, errs.InvalidArgument},
			"replica id 0":         {func(p *storagev1.PlaceReplicasRequest_TopicPlacement) { p.Partitions[0].ReplicaId = 0 }, errs.InvalidArgument},
			"not among the voters": {func(p *storagev1.PlaceReplicasRequest_TopicPlacement) { p.Partitions[0].ReplicaId = 4 }, errs.InvalidArgument},
			"no voters":            {func(p *storagev1.PlaceReplicasRequest_TopicPlacement) { p.Partitions[0].Voters = nil }, errs.InvalidArgument},
			"three voters": {func(p *storagev1.PlaceReplicasRequest_TopicPlacement) {
				p.Partitions[0].Voters = append(p.Partitions[0].Voters,
					&storagev1.PlaceReplicasRequest_Voter{ReplicaId: 2, Node: "n2"}, &storagev1.PlaceReplicasRequest_Voter{ReplicaId: 3, Node: "n3"})
			}, errs.Unimplemented},
		} {
			good, bad := topicPlacement(uuid.New(), 1, nil, 1), topicPlacement(uuid.New(), 1, nil, 1)
			c.change(bad)
			err := s.place(good, bad)
			require.Equal(t, c.kind, errs.KindOf(err), "%s: %v", name, err)
			out := (&topic{s: s, id: uuid.UUID(good.GetTopicId())}).appendOne(0, batchOf(t, "x"))
			requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION, out.GetError(), "%s: one is refused, and nothing is placed", name)
		}
		require.Equal(t, int64(1), orders.written(0, "b").GetBaseOffset())
	})
}

func TestRemoveReplicas(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		gone, kept := s.topic(2, nil), s.topic(1, nil)
		gone.written(0, "a")
		kept.written(0, "a")
		require.NoError(t, s.remove(gone.id, uuid.New()))
		require.NoError(t, s.remove(gone.id), "again")
		response, err := s.replicas.PlaceReplicas(t.Context(), &storagev1.PlaceReplicasRequest{
			Topics: []*storagev1.PlaceReplicasRequest_TopicPlacement{topicPlacement(gone.id, 2, nil, 9), topicPlacement(kept.id, 1, nil, 9)},
		})
		require.NoError(t, err, "a placement that was on its way")
		require.Equal(t, [][]byte{gone.id[:]}, response.GetRemovedTopicIds())
		for p := range int32(2) {
			requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION, gone.appendOne(p, batchOf(t, "x")).GetError())
			requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION, s.fetchOne(gone.from(p, 0)).GetError())
		}
		require.Equal(t, int64(1), kept.written(0, "b").GetBaseOffset())
		_, err = s.replicas.RemoveReplicas(t.Context(), &storagev1.RemoveReplicasRequest{TopicIds: [][]byte{kept.id[:], {1, 2}}})
		require.Equal(t, errs.InvalidArgument, errs.KindOf(err))
		require.Equal(t, int64(2), kept.written(0, "c").GetBaseOffset(), "one is no id, and nothing is removed")
	})
}

func TestFence(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		shard := s.internal()
		fence := func(p *storagev1.Partition, epoch int64) *storagev1.FenceResponse {
			t.Helper()
			response, err := s.replicas.Fence(t.Context(), &storagev1.FenceRequest{Partition: p, OwnerEpoch: epoch})
			require.NoError(t, err)
			return response
		}
		owner := func(epoch int64) *storagev1.AppendResponse_PartitionAppended {
			a := shard.to(0, batchOf(t, "x"))
			a.OwnerEpoch = proto.Int64(epoch)
			return s.append(storagev1.Origin_ORIGIN_COORDINATOR, a)
		}
		require.Nil(t, fence(shard.partition(0), 3).GetError())
		require.Nil(t, owner(3).GetError())
		response := fence(shard.partition(0), 4)
		require.Nil(t, response.GetError())
		require.Equal(t, int64(1), response.GetLogEndOffset())
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_FENCED_OWNER, owner(3).GetError())
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_FENCED_OWNER, fence(shard.partition(0), 3).GetError())
		require.Nil(t, fence(shard.partition(0), 4).GetError(), "again")
		require.Nil(t, owner(4).GetError())
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST, fence(shard.partition(0), -1).GetError())
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION, fence(shard.partition(1), 4).GetError())
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST, fence(&storagev1.Partition{}, 4).GetError())
	})
}

// reports follow a stream of WatchReplicas.
type reports struct {
	t      *testing.T
	stream grpc.ServerStreamingClient[storagev1.WatchReplicasResponse]
	leads  map[uuid.UUID]map[int32]bool
}

func (r *reports) next() (snapshotDone bool) {
	r.t.Helper()
	message, err := r.stream.Recv()
	require.NoError(r.t, err)
	for _, report := range message.GetTopics() {
		id := uuid.UUID(report.GetTopicId())
		if r.leads[id] == nil {
			r.leads[id] = map[int32]bool{}
		}
		n := len(report.GetPartitions())
		require.Len(r.t, report.GetLeads(), n)
		require.Len(r.t, report.GetEpochs(), n)
		require.Len(r.t, report.GetDamaged(), n)
		for i, p := range report.GetPartitions() {
			require.False(r.t, report.GetDamaged()[i])
			r.leads[id][p] = report.GetLeads()[i]
		}
	}
	return message.GetSnapshotDone()
}

func TestWatchReplicas(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		watch := func(ctx context.Context) *reports {
			stream, err := s.replicas.WatchReplicas(ctx, &storagev1.WatchReplicasRequest{})
			require.NoError(t, err)
			r := &reports{t: t, stream: stream, leads: map[uuid.UUID]map[int32]bool{}}
			for !r.next() {
			}
			return r
		}
		require.Empty(t, watch(t.Context()).leads, "of an empty node")

		orders := s.topic(3, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := watch(ctx)
		require.Equal(t, map[uuid.UUID]map[int32]bool{orders.id: {0: true, 1: true, 2: true}}, r.leads)

		invoices := s.topic(2, nil)
		for len(r.leads[invoices.id]) < 2 {
			require.False(t, r.next(), "the snapshot is done once")
		}
		require.Equal(t, map[int32]bool{0: true, 1: true}, r.leads[invoices.id])

		cancel()
		_, err := r.stream.Recv()
		for err == nil {
			_, err = r.stream.Recv()
		}
		require.Equal(t, errs.Canceled, errs.KindOf(err))
	})
}

// What is not there says so.
func TestWhatIsNotServedYet(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		_, err := s.storage.WriteMarkers(t.Context(), &storagev1.WriteMarkersRequest{})
		require.Equal(t, errs.Unimplemented, errs.KindOf(err))
	})
}
