package backend_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
	"github.com/sluiceio/sluice/services/gateway/internal/clustertest"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// sequencer has a producer write to a topic "t" with two partitions on one node.
type sequencer struct {
	t       *testing.T
	storage *clustertest.Storage
	backend *backend.Backend
}

func newSequencer(t *testing.T) *sequencer {
	t.Helper()
	cluster := clustertest.New(t, "a")
	b := backend.New(
		backend.Limits{RecordBytes: 1000, ProduceRecords: 1000, FetchRecords: 1000, FetchBytes: 1 << 20, Patience: 50 * time.Millisecond, Timeout: 10 * time.Second},
		backend.Deps{Logger: slog.New(slog.DiscardHandler), Dialer: cluster, Finder: cluster, Now: time.Now},
	)
	// Before anybody watches, so that the first picture has it: patience is short here.
	_, err := cluster.Coordinator.CreateTopic(t.Context(), &coordinatorv1.CreateTopicRequest{Name: "t", Partitions: 2})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	<-b.Complete()
	return &sequencer{t, cluster.Storage["a"], b}
}

// at is where a request writes: a partition, from a sequence on.
type at struct {
	partition int32
	sequences []int64
}

func (s *sequencer) produce(requests ...[]at) []backend.WriteResult {
	s.t.Helper()
	writes := make([]backend.WriteRequest, len(requests))
	for i, request := range requests {
		writes[i].Producer = new("p")
		for _, part := range request {
			for _, sequence := range part.sequences {
				writes[i].Records = append(writes[i].Records, backend.NewRecord{
					Value: []byte("x"), Partition: part.partition, Sequence: sequence, Sequenced: true,
				})
			}
		}
	}
	admin := grants.CallerOf(&registryv1.Principal{Id: "anonymous", Admin: true})
	return s.backend.ProduceAll(s.t.Context(), admin, "t", writes)
}

func one(partition int32, sequences ...int64) []at { return []at{{partition, sequences}} }

func written(partition int32, offsets ...int64) backend.WriteResult {
	var r backend.WriteResult
	for _, offset := range offsets {
		r.Placed = append(r.Placed, backend.Placed{Partition: partition, Offset: offset})
	}
	return r
}

// again marks records as duplicates.
func again(r backend.WriteResult, records ...int) backend.WriteResult {
	for _, i := range records {
		r.Placed[i].Duplicate = true
	}
	return r
}

func TestRequestsOfOneProducerAreWrittenTogether(t *testing.T) {
	s := newSequencer(t)
	require.Equal(t, []backend.WriteResult{
		written(0, 0, 1), written(1, 0), written(0, 2), again(written(0, 1, 2, 3), 0, 1), written(1, 1),
	}, s.produce(one(0, 5, 6), one(1, 0), one(0, 7), one(0, 6, 7, 8), one(1, 1)))
	require.Equal(t, 1, s.storage.Prepares())
	require.Len(t, s.storage.Appends(), 1)
	require.Equal(t, []backend.WriteResult{again(written(0, 3), 0), again(written(0, 0), 0)}, s.produce(one(0, 8), one(0, 5)))
	require.Len(t, s.storage.Appends(), 1, "there was nothing to write")

	// One that touches two partitions is by itself, in its place.
	got := s.produce(one(0, 9), []at{{0, []int64{10}}, {1, []int64{2}}}, one(1, 3), one(0, 11))
	require.Equal(t, written(0, 4), got[0])
	require.Equal(t, []backend.Placed{{Partition: 0, Offset: 5}, {Partition: 1, Offset: 2}}, got[1].Placed)
	require.Equal(t, []backend.WriteResult{written(1, 3), written(0, 6)}, got[2:])
}

// A request that is refused takes no other along, and those behind it are judged as
// if it had never been.
func TestRefusedAmongOthersOfItsProducer(t *testing.T) {
	s := newSequencer(t)
	got := s.produce(one(0, 0), one(1, 0), one(0, 2), one(0, 1), one(0, 2), one(0, 9), one(1, 1))
	for _, i := range []int{2, 5} {
		require.ErrorIs(t, got[i].Err, backend.ErrSequenceGap)
		require.Empty(t, got[i].Placed)
	}
	require.Equal(t, []backend.WriteResult{written(0, 0), written(1, 0)}, got[:2])
	require.Equal(t, []backend.WriteResult{written(0, 1), written(0, 2)}, got[3:5])
	require.Equal(t, written(1, 1), got[6])

	// Refused before anything is asked of a partition.
	got = s.produce(one(0, 3), one(7, 0), one(0, 4))
	require.ErrorIs(t, got[1].Err, backend.ErrPartition)
	require.Equal(t, []backend.WriteResult{written(0, 3), written(0, 4)}, []backend.WriteResult{got[0], got[2]})
}

// Another request of the producer came between the check and the write: each is
// checked anew.
func TestGuardThatDoesNotHoldAmongOthers(t *testing.T) {
	s := newSequencer(t)
	s.storage.Refuse(0, &storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_STALE_GUARD})
	require.Equal(t, []backend.WriteResult{written(0, 0), written(0, 1), written(1, 0)}, s.produce(one(0, 0), one(0, 1), one(1, 0)))
}

// What fails for all is told to all, and to nobody else.
func TestPartitionThatFails(t *testing.T) {
	s := newSequencer(t)
	s.storage.Refuse(0, &storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME})
	got := s.produce(one(0, 0), one(1, 0), one(0, 1))
	require.ErrorIs(t, got[0].Err, backend.ErrUnknownOutcome)
	require.ErrorIs(t, got[2].Err, backend.ErrUnknownOutcome)
	require.Equal(t, written(1, 0), got[1])

	s.storage.FailAfter(errs.New(errs.Internal, "X", "broken off"))
	got = s.produce(one(0, 0), one(0, 1), one(1, 1))
	for _, r := range got {
		require.ErrorIs(t, r.Err, backend.ErrUnknownOutcome)
	}
	require.Equal(t, []backend.WriteResult{again(written(0, 0), 0), again(written(0, 1), 0), again(written(1, 1), 0)},
		s.produce(one(0, 0), one(0, 1), one(1, 1)), "a retry finds them")

	before := s.storage.Prepares()
	for range 100 {
		s.storage.RefusePrepare(1, &storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_NOT_LEADER})
	}
	got = s.produce(one(1, 2), one(0, 2), one(1, 3))
	require.ErrorIs(t, got[0].Err, backend.ErrNoLeader)
	require.ErrorIs(t, got[2].Err, backend.ErrNoLeader)
	require.Equal(t, written(0, 2), got[1])
	require.Greater(t, s.storage.Prepares(), before)
}
