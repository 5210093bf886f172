package rpc_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/node"
	"github.com/sluiceio/sluice/services/storage/internal/rpc"
)

var topic = uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")

// store is the services over a node on a file system that can be killed.
type store struct {
	t *testing.T
	*rpc.Service
	fs   *memfs.FS
	stop func()
}

func open(t *testing.T, fs *memfs.FS) *store {
	t.Helper()
	n, err := node.Open(node.Options{
		FS: fs, Dir: "store", ID: "n1", Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		Defaults: node.Defaults{SegmentBytes: 1 << 20, MaxMessageBytes: 1 << 20},
		Workers:  4, MaxAwake: 16, MaxReadHandles: 16, IdleAfter: time.Hour, MaxAppendBytes: 8 << 20, MaxProducers: 100,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	s := &store{t: t, fs: fs, Service: rpc.New(rpc.Options{
		Node: n, Logger: slog.New(slog.DiscardHandler), Tracer: noop.NewTracerProvider().Tracer(""), Now: time.Now,
		MaxFetchBytes: 1 << 20, MaxInflate: 1 << 20,
	})}
	s.stop = func() {
		if cancel != nil {
			cancel()
			<-done
			cancel = nil
		}
	}
	t.Cleanup(s.stop)
	placed := &persistv1.CatalogTopic{TopicId: topic[:], Name: "orders", ConfigVersion: 1}
	for i := range int32(3) {
		placed.Partitions = append(placed.Partitions, &persistv1.CatalogPartition{
			Partition: i, ReplicaId: 1, VoterIds: []uint64{1}, VoterNodes: []string{"n1"},
		})
	}
	require.NoError(t, n.Place([]*persistv1.CatalogTopic{placed}))
	return s
}

// kill goes on with what a kill -9 leaves.
func (s *store) kill() *store {
	fs := s.fs.Kill()
	s.stop()
	return open(s.t, fs)
}

// restart stops cleanly and goes on.
func (s *store) restart() *store {
	s.stop()
	return open(s.t, s.fs)
}

func (s *store) prepare(partition int32, number int64, sequences ...int64) *storagev1.PrepareResponse_PartitionPrepared {
	s.t.Helper()
	response, err := s.Prepare(s.t.Context(), &storagev1.PrepareRequest{
		Purpose: storagev1.Purpose_PURPOSE_SEQUENCED_APPEND, ProducerId: recordbatch.WideProducer | number,
		Partitions: []*storagev1.PrepareRequest_PartitionPrepare{{
			Partition: &storagev1.Partition{TopicId: topic[:], Partition: partition}, Sequences: sequences,
		}},
	})
	require.NoError(s.t, err)
	require.Len(s.t, response.GetPrepared(), 1)
	return response.GetPrepared()[0]
}

func (s *store) append(partition int32, batches, guard []byte) *storagev1.AppendResponse_PartitionAppended {
	s.t.Helper()
	response, err := s.Append(s.t.Context(), &storagev1.AppendRequest{
		Origin: storagev1.Origin_ORIGIN_CLIENT,
		Appends: []*storagev1.AppendRequest_PartitionAppend{{
			Partition: &storagev1.Partition{TopicId: topic[:], Partition: partition}, Batches: batches, Guard: guard,
		}},
	})
	require.NoError(s.t, err)
	require.Len(s.t, response.GetAppended(), 1)
	return response.GetAppended()[0]
}

func batchBy(t *testing.T, by *recordbatch.Producer, records int) []byte {
	t.Helper()
	b := recordbatch.NewBuilder(recordbatch.Options{Producer: by})
	for range records {
		b.Append(time.Now().UnixMilli(), nil, []byte("x"), nil)
	}
	batch, err := b.Finish()
	require.NoError(t, err)
	return batch
}

func wide(t *testing.T, number, sequence int64, records int) []byte {
	by := recordbatch.PackWide(number, sequence)
	return batchBy(t, &by, records)
}

func kafka(t *testing.T, id int64, epoch int16, sequence int32, records int) []byte {
	return batchBy(t, &recordbatch.Producer{ID: id, Epoch: epoch, BaseSequence: sequence}, records)
}

func requireCode(t *testing.T, code storagev1.ErrorCode, e *storagev1.PartitionError) {
	t.Helper()
	require.Equal(t, code.String(), e.GetCode().String(), "%v", e)
}

func TestWideProducerIsKnownAfterEveryStop(t *testing.T) {
	s := open(t, memfs.New())
	first := int64(1)<<46 - 2 // the sequence changes the producer id of the header
	prepared := s.prepare(0, 7, first, first+1, first+2)
	require.Nil(t, prepared.GetError())
	require.Equal(t, []int64{-1, -1, -1}, prepared.GetDuplicateOffsets())
	require.EqualValues(t, 0, s.append(0, wide(t, 7, first, 3), prepared.GetGuard()).GetBaseOffset())
	require.EqualValues(t, 3, s.append(0, batchBy(t, nil, 2), nil).GetBaseOffset())

	again := s.append(0, wide(t, 7, first, 3), prepared.GetGuard())
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_STALE_GUARD, again.GetError())

	for _, next := range []func() *store{
		func() *store { return s },
		func() *store { return s.kill() },
		func() *store { return s.restart() },
		func() *store { return s.kill() },
	} {
		s = next()
		prepared = s.prepare(0, 7, first+1, first+2, first+3, first+3)
		require.Nil(t, prepared.GetError())
		require.Equal(t, []int64{1, 2, -1, -1}, prepared.GetDuplicateOffsets())
		gap := s.prepare(0, 7, first+2, first+4).GetError()
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_OUT_OF_ORDER_SEQUENCE, gap)
		require.EqualValues(t, 1, gap.GetRecord())
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_DUPLICATE_SEQUENCE, s.prepare(0, 7, first-1).GetError())
		// Other partitions and other producers know nothing of it.
		require.Nil(t, s.prepare(1, 7, 99).GetError())
		require.Nil(t, s.prepare(0, 8, 99).GetError())
	}
	// The guard was given by the very leadership that gets it back.
	require.EqualValues(t, 5, s.append(0, wide(t, 7, first+3, 1), prepared.GetGuard()).GetBaseOffset())
}

func TestGuardIsForWhatItWasGivenFor(t *testing.T) {
	s := open(t, memfs.New())
	guard := s.prepare(0, 7, 0, 1).GetGuard()
	for name, got := range map[string]*storagev1.AppendResponse_PartitionAppended{
		"another partition": s.append(1, wide(t, 7, 0, 2), guard),
		"another producer":  s.append(0, wide(t, 8, 0, 2), guard),
	} {
		require.Contains(t, []storagev1.ErrorCode{storagev1.ErrorCode_ERROR_CODE_STALE_GUARD, storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE},
			got.GetError().GetCode(), name)
	}
	for name, got := range map[string]*storagev1.AppendResponse_PartitionAppended{
		"none":              s.append(0, wide(t, 7, 0, 2), nil),
		"garbage":           s.append(0, wide(t, 7, 0, 2), []byte("guard")),
		"without producer":  s.append(0, batchBy(t, nil, 1), guard),
		"of Kafka's kind":   s.append(0, kafka(t, 7, 0, 0, 1), guard),
		"one of two beside": s.append(0, append(wide(t, 7, 0, 1), batchBy(t, nil, 1)...), guard),
	} {
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST, got.GetError())
		require.Nil(t, s.prepare(0, 7, 0).GetError(), name)
	}
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_INVALID_RECORD, s.append(0, append(wide(t, 7, 0, 1), wide(t, 7, 5, 1)...), guard).GetError())
	require.Nil(t, s.append(0, append(wide(t, 7, 0, 1), wide(t, 7, 1, 1)...), guard).GetError())
}

func TestPrepareRefusesNonsense(t *testing.T) {
	s := open(t, memfs.New())
	for name, request := range map[string]*storagev1.PrepareRequest{
		"no purpose":   {ProducerId: 1<<62 | 1},
		"kafka's kind": {ProducerId: 1, Purpose: storagev1.Purpose_PURPOSE_SEQUENCED_APPEND},
		"too large":    {ProducerId: 1<<62 | 1<<44, Purpose: storagev1.Purpose_PURPOSE_SEQUENCED_APPEND},
		"negative":     {ProducerId: -1, Purpose: storagev1.Purpose_PURPOSE_SEQUENCED_APPEND},
	} {
		request.Partitions = []*storagev1.PrepareRequest_PartitionPrepare{{Partition: &storagev1.Partition{TopicId: topic[:]}, Sequences: []int64{1}}}
		response, err := s.Prepare(t.Context(), request)
		require.NoError(t, err)
		require.Equal(t, storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST, response.GetPrepared()[0].GetError().GetCode(), name)
	}
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST, s.prepare(0, 1).GetError())
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST, s.prepare(0, 1, -1).GetError())
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION, s.prepare(9, 1, 1).GetError())
}

func TestKafkaProducerIsKnownAfterEveryStop(t *testing.T) {
	s := open(t, memfs.New())
	for i := range int32(6) {
		require.EqualValues(t, 2*i, s.append(0, kafka(t, 7, 3, 2*i, 2), nil).GetBaseOffset())
	}
	for _, next := range []func() *store{
		func() *store { return s },
		func() *store { return s.kill() },
		func() *store { return s.restart() },
	} {
		s = next()
		for i := int32(1); i < 6; i++ {
			got := s.append(0, kafka(t, 7, 3, 2*i, 2), nil)
			require.Nil(t, got.GetError())
			require.EqualValues(t, 2*i, got.GetBaseOffset())
			require.Equal(t, []bool{true}, got.GetDuplicate())
		}
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_DUPLICATE_SEQUENCE, s.append(0, kafka(t, 7, 3, 0, 2), nil).GetError())
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_OUT_OF_ORDER_SEQUENCE, s.append(0, kafka(t, 7, 3, 13, 1), nil).GetError())
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_OUT_OF_ORDER_SEQUENCE, s.append(0, kafka(t, 7, 4, 1, 1), nil).GetError())
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_INVALID_PRODUCER_EPOCH, s.append(0, kafka(t, 7, 2, 0, 1), nil).GetError())
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_INVALID_REQUEST, s.append(0, append(kafka(t, 7, 3, 12, 1), kafka(t, 7, 3, 13, 1)...), nil).GetError())
	}
	by := recordbatch.Producer{ID: 7, Epoch: 3, BaseSequence: 12}
	b := recordbatch.NewBuilder(recordbatch.Options{Producer: &by, Transactional: true})
	b.Append(time.Now().UnixMilli(), nil, nil, nil)
	transactional, err := b.Finish()
	require.NoError(t, err)
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNSUPPORTED, s.append(0, transactional, nil).GetError())
}

func TestDescribeProducers(t *testing.T) {
	s := open(t, memfs.New())
	response, err := s.DescribeProducers(t.Context(), &storagev1.DescribeProducersRequest{})
	require.NoError(t, err)
	require.Empty(t, response.GetPartitions())

	require.Nil(t, s.append(1, wide(t, 7, 1<<50, 3), s.prepare(1, 7, 1<<50, 1<<50+1, 1<<50+2).GetGuard()).GetError())
	require.Nil(t, s.append(1, kafka(t, 5, 2, 10, 4), nil).GetError())
	response, err = s.DescribeProducers(t.Context(), &storagev1.DescribeProducersRequest{})
	require.NoError(t, err)
	require.Len(t, response.GetPartitions(), 1)
	producers := response.GetPartitions()[0].GetProducers()
	require.EqualValues(t, 1, response.GetPartitions()[0].GetPartition().GetPartition())
	require.Len(t, producers, 2)
	require.EqualValues(t, 5, producers[0].GetProducerId())
	require.EqualValues(t, 2, producers[0].GetProducerEpoch())
	require.EqualValues(t, 13, producers[0].GetLastSequence())
	require.EqualValues(t, 6, producers[0].GetLastOffset())
	require.EqualValues(t, recordbatch.WideProducer|7, producers[1].GetProducerId())
	require.EqualValues(t, 1<<50+2, producers[1].GetLastSequence())
	require.EqualValues(t, 2, producers[1].GetLastOffset())
	require.InDelta(t, time.Now().UnixMilli(), producers[1].GetLastTimestampMs(), 60_000)

	response, err = s.DescribeProducers(t.Context(), &storagev1.DescribeProducersRequest{Partitions: []*storagev1.Partition{
		{TopicId: topic[:], Partition: 0}, {TopicId: topic[:], Partition: 9},
	}})
	require.NoError(t, err)
	require.Nil(t, response.GetPartitions()[0].GetError())
	require.Empty(t, response.GetPartitions()[0].GetProducers())
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION, response.GetPartitions()[1].GetError())
}
