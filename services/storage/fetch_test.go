package storage_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
)

func TestFetch(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(1, nil)
		orders.written(0, "a", "b", "c")
		orders.written(0, "d")

		out := s.fetchOne(orders.from(0, 0))
		require.Nil(t, out.GetError())
		require.Equal(t, int64(0), out.GetOffset())
		require.Equal(t, int64(4), out.GetNextOffset())
		require.Equal(t, int64(4), out.GetHighWatermark())
		require.Equal(t, int64(4), out.GetLastStableOffset())
		require.Equal(t, int64(4), out.GetLogEndOffset())
		require.Equal(t, int64(0), out.GetLogStartOffset())
		require.Len(t, valuesOf(t, out.GetBatches()), 4)

		out = s.fetchOne(orders.from(0, 1))
		require.Equal(t, map[int64]string{0: "a", 1: "b", 2: "c", 3: "d"}, valuesOf(t, out.GetBatches()), "whole batches, from the one with the offset on")
		out = s.fetchOne(orders.from(0, 4))
		require.Nil(t, out.GetError(), "the end is in range")
		require.Empty(t, out.GetBatches())
		require.Equal(t, int64(4), out.GetNextOffset())
	})
}

func TestFetchOutOfRange(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(1, nil)
		for i := range 4 {
			orders.written(0, fmt.Sprint(i))
		}
		started := s.advance(orders.partition(0), 2)
		require.Nil(t, started.GetError())
		for _, offset := range []int64{-1, 0, 1, 5, 1 << 40} {
			out := s.fetchOne(orders.from(0, offset))
			requireCode(t, storagev1.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE, out.GetError())
			require.Equal(t, int64(2), out.GetLogStartOffset(), "the caller learns where it may read")
			require.Equal(t, int64(4), out.GetHighWatermark())
		}
		clamped := func(offset int64) *storagev1.FetchResponse_PartitionFetched {
			f := orders.from(0, offset)
			f.Clamp = true
			out := s.fetchOne(f)
			require.Nil(t, out.GetError())
			return out
		}
		for _, offset := range []int64{-7, 0, 1, 2} {
			out := clamped(offset)
			require.Equal(t, int64(2), out.GetOffset())
			require.Equal(t, map[int64]string{2: "2", 3: "3"}, valuesOf(t, out.GetBatches()))
		}
		out := clamped(9)
		require.Empty(t, out.GetBatches())
		require.Equal(t, int64(9), out.GetNextOffset())
	})
}

func TestFetchLimits(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(3, nil)
		size := len(batchOf(t, "0"))
		for p := range int32(3) {
			for i := range 4 {
				orders.written(p, fmt.Sprint(i))
			}
		}
		limited := func(maxBytes, of0, of1, of2 int) []int {
			t.Helper()
			request := &storagev1.FetchRequest{MaxBytes: int32(maxBytes)}
			for p, limit := range []int{of0, of1, of2} {
				f := orders.from(int32(p), 0)
				f.MaxBytes = int32(limit)
				request.Fetches = append(request.Fetches, f)
			}
			response, err := s.storage.Fetch(t.Context(), request)
			require.NoError(t, err)
			var counts []int
			for _, out := range response.GetFetched() {
				require.Nil(t, out.GetError())
				require.Zero(t, len(out.GetBatches())%size, "whole batches")
				require.Equal(t, int64(len(out.GetBatches())/size), out.GetNextOffset())
				counts = append(counts, len(out.GetBatches())/size)
			}
			return counts
		}
		big := 1 << 20
		require.Equal(t, []int{4, 4, 4}, limited(big, big, big, big))
		require.Equal(t, []int{1, 0, 0}, limited(1, big, big, big), "the first batch comes whole, and it alone")
		require.Equal(t, []int{1, 0, 0}, limited(1, 1, 1, 1))
		require.Equal(t, []int{1, 2, 3}, limited(big, 1, 2*size, 3*size+1), "strict after the first")
		require.Equal(t, []int{1, 0, 4}, limited(big, 1, size-1, big))
		require.Equal(t, []int{2, 2, 0}, limited(4*size+size/2, 2*size, big, big))
		require.Equal(t, []int{1, 0, 0}, limited(0, 0, 0, 0))
		require.Equal(t, []int{1, 0, 0}, limited(-5, -5, -5, -5))
	})
}

// A fetch that finds nothing waits, and is answered when something is committed.
func TestFetchWakesOnCommit(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(2, nil)
		for i := range 20 {
			answered := make(chan []*storagev1.FetchResponse_PartitionFetched, 1)
			go func() {
				fetched, err := s.fetch(t.Context(), &storagev1.FetchRequest{
					MaxWaitMs: int32((2 * patience).Milliseconds()), MinBytes: 1,
					Fetches: []*storagev1.FetchRequest_PartitionFetch{orders.from(0, 0), orders.from(1, int64(i))},
				})
				if err != nil {
					t.Errorf("fetch: %v", err)
				}
				answered <- fetched
			}()
			orders.written(1, fmt.Sprint(i))
			select {
			case fetched := <-answered:
				require.Empty(t, fetched[0].GetBatches())
				require.Equal(t, map[int64]string{int64(i): fmt.Sprint(i)}, valuesOf(t, fetched[1].GetBatches()))
			case <-time.After(patience):
				t.Fatal("the fetch was not woken")
			}
		}
	})
}

func TestFetchWaits(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(1, nil)
		orders.written(0, "x")
		size := int32(len(batchOf(t, "x")))
		timed := func(request *storagev1.FetchRequest) (*storagev1.FetchResponse_PartitionFetched, time.Duration) {
			t.Helper()
			began := time.Now()
			fetched, err := s.fetch(t.Context(), request)
			require.NoError(t, err)
			return fetched[0], time.Since(began)
		}
		const wait = 50 * time.Millisecond
		at := func(offset int64, minBytes int32, wait time.Duration) *storagev1.FetchRequest {
			return &storagev1.FetchRequest{
				MaxWaitMs: int32(wait.Milliseconds()), MinBytes: minBytes,
				Fetches: []*storagev1.FetchRequest_PartitionFetch{orders.from(0, offset)},
			}
		}
		out, took := timed(at(1, 1, wait))
		require.Empty(t, out.GetBatches())
		require.GreaterOrEqual(t, took, wait)

		out, took = timed(at(0, size+1, wait))
		require.Len(t, out.GetBatches(), int(size), "what there is comes when the wait is over")
		require.GreaterOrEqual(t, took, wait)

		// None of these has anything to wait for.
		_, took = timed(at(0, size, 2*patience))
		require.Less(t, took, patience)
		_, took = timed(at(0, 0, 2*patience))
		require.Less(t, took, patience)
		out, took = timed(at(7, 1, 2*patience))
		require.NotNil(t, out.GetError())
		require.Less(t, took, patience)
		f := at(1, 1, 2*patience)
		f.Fetches = append(f.Fetches, (&topic{s: s, id: uuid.New()}).from(0, 0))
		_, took = timed(f)
		require.Less(t, took, patience, "one partition's error is news")
	})
}

// Enough bytes may come in several commits.
func TestFetchWaitsForMinBytes(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(2, nil)
		size := int32(len(batchOf(t, "0")))
		answered := make(chan []*storagev1.FetchResponse_PartitionFetched, 1)
		go func() {
			fetched, err := s.fetch(t.Context(), &storagev1.FetchRequest{
				MaxWaitMs: int32((2 * patience).Milliseconds()), MinBytes: 3 * size,
				Fetches: []*storagev1.FetchRequest_PartitionFetch{orders.from(0, 0), orders.from(1, 0)},
			})
			if err != nil {
				t.Errorf("fetch: %v", err)
			}
			answered <- fetched
		}()
		for i := range 2 {
			orders.written(int32(i), fmt.Sprint(i))
		}
		select {
		case <-answered:
			t.Fatal("answered before there was enough")
		default:
		}
		orders.written(0, "2")
		select {
		case fetched := <-answered:
			require.Len(t, fetched[0].GetBatches(), int(2*size))
			require.Len(t, fetched[1].GetBatches(), int(size))
		case <-time.After(patience):
			t.Fatal("the fetch was not woken")
		}
	})
}

func TestFetchEndsWithItsCaller(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(1, nil)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := s.fetch(ctx, &storagev1.FetchRequest{
				MaxWaitMs: int32((2 * patience).Milliseconds()), MinBytes: 1,
				Fetches: []*storagev1.FetchRequest_PartitionFetch{orders.from(0, 0)},
			})
			failed <- err
		}()
		cancel()
		select {
		case err := <-failed:
			require.Equal(t, errs.Canceled, errs.KindOf(err))
		case <-time.After(patience):
			t.Fatal("the fetch outlives its caller")
		}

		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := s.fetch(ctx, &storagev1.FetchRequest{
			MaxWaitMs: int32((2 * patience).Milliseconds()), MinBytes: 1,
			Fetches: []*storagev1.FetchRequest_PartitionFetch{orders.from(0, 0)},
		})
		require.Equal(t, errs.DeadlineExceeded, errs.KindOf(err))
	})
}

// A removal answers those that wait for the topic's records.
func TestFetchOfARemovedTopic(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(1, nil)
		answered := make(chan *storagev1.FetchResponse_PartitionFetched, 1)
		go func() {
			fetched, err := s.fetch(t.Context(), &storagev1.FetchRequest{
				MaxWaitMs: int32((2 * patience).Milliseconds()), MinBytes: 1,
				Fetches: []*storagev1.FetchRequest_PartitionFetch{orders.from(0, 0)},
			})
			if err != nil {
				t.Errorf("fetch: %v", err)
			}
			answered <- fetched[0]
		}()
		require.NoError(t, s.remove(orders.id))
		select {
		case out := <-answered:
			requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION, out.GetError())
		case <-time.After(patience):
			t.Fatal("the fetch was not woken")
		}
	})
}

// A stop answers those that wait, with what they can try elsewhere.
func TestFetchAndAppendAtAStop(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(2, nil)
		orders.written(0, "x")
		answered := make(chan *storagev1.FetchResponse_PartitionFetched, 1)
		go func() {
			fetched, err := s.fetch(t.Context(), &storagev1.FetchRequest{
				MaxWaitMs: int32((2 * patience).Milliseconds()), MinBytes: 1,
				Fetches: []*storagev1.FetchRequest_PartitionFetch{orders.from(1, 0)},
			})
			if err != nil {
				t.Errorf("fetch: %v", err)
			}
			answered <- fetched[0]
		}()
		require.NoError(t, s.stop())
		select {
		case out := <-answered:
			requireCode(t, storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE, out.GetError())
		case <-time.After(patience):
			t.Fatal("the fetch was not woken")
		}
		for p := range int32(2) {
			requireCode(t, storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE, orders.appendOne(p, batchOf(t, "late")).GetError())
		}
		err := s.place(topicPlacement(uuid.New(), 1, nil, 1))
		require.Equal(t, errs.Unavailable, errs.KindOf(err))
		require.Error(t, s.service.Ready())
	})
}

func TestLeaderEpochs(t *testing.T) {
	onEach(t, func(t *testing.T, s *suite) {
		orders := s.topic(1, nil)
		orders.written(0, "a")
		epoch := s.list(orders.partition(0), -1).GetLeaderEpoch()
		require.Positive(t, epoch)
		at := func(epoch int32) *storagev1.FetchResponse_PartitionFetched {
			f := orders.from(0, 0)
			f.CurrentLeaderEpoch = proto.Int32(epoch)
			return s.fetchOne(f)
		}
		require.Nil(t, at(epoch).GetError())
		require.Nil(t, at(-1).GetError(), "no idea of the epoch")
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_FENCED_LEADER_EPOCH, at(epoch-1).GetError())
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_LEADER_EPOCH, at(epoch+1).GetError())

		last := func(offset int64, epoch int32) *storagev1.FetchResponse_PartitionFetched {
			f := orders.from(0, offset)
			f.LastFetchedEpoch = proto.Int32(epoch)
			return s.fetchOne(f)
		}
		require.Nil(t, last(1, epoch).GetDiverging())
		diverging := last(5, epoch).GetDiverging()
		require.NotNil(t, diverging, "the caller has more of the epoch than there is")
		require.Equal(t, epoch, diverging.GetEpoch())
		require.Equal(t, int64(1), diverging.GetEndOffset())
		requireCode(t, storagev1.ErrorCode_ERROR_CODE_OFFSET_OUT_OF_RANGE, last(1, epoch+3).GetError(), "nobody here knows where the two logs part")
	})
}
