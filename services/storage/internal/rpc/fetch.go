package rpc

import (
	"context"
	"time"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/storage/internal/node"
)

// Fetch implements StorageService.
func (s *Service) Fetch(ctx context.Context, request *storagev1.FetchRequest) (*storagev1.FetchResponse, error) {
	reading := s.newReading(request)
	fetched, enough := reading.read(ctx)
	wait := min(time.Duration(request.GetMaxWaitMs())*time.Millisecond, s.options.MaxFetchWait)
	if enough || wait <= 0 {
		return fetched, nil
	}
	waiter := node.NewWaiter()
	defer waiter.Close()
	for _, p := range reading.partitions {
		if p != nil {
			waiter.Watch(p)
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		// What came between the last look and Watch is seen by this one.
		if fetched, enough = reading.read(ctx); enough {
			return fetched, nil
		}
		select {
		case <-waiter.C:
		case <-timer.C:
			return fetched, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// reading is a fetch that may look several times.
type reading struct {
	service    *Service
	request    *storagev1.FetchRequest
	partitions []*node.Partition
	unknown    []error
	maxBytes   int
}

func (s *Service) newReading(request *storagev1.FetchRequest) *reading {
	fetches := request.GetFetches()
	r := &reading{
		service: s, request: request,
		partitions: make([]*node.Partition, len(fetches)),
		unknown:    make([]error, len(fetches)),
		maxBytes:   min(int(request.GetMaxBytes()), s.options.MaxFetchBytes),
	}
	for i, f := range fetches {
		r.partitions[i], r.unknown[i] = s.partition(f.GetPartition())
	}
	return r
}

// read looks at every partition once. It is enough when the bytes are, or when
// there is something that waiting would not change.
//
// Nothing that is at hand waits for cold storage. Only when there is nothing else
// is it waited for, one partition after the other until something comes; the others
// are on their way meanwhile.
func (r *reading) read(ctx context.Context) (response *storagev1.FetchResponse, enough bool) {
	fetches := r.request.GetFetches()
	response = &storagev1.FetchResponse{
		Fetched: make([]*storagev1.FetchResponse_PartitionFetched, len(fetches)),
	}
	left, total := r.maxBytes, 0
	var pending []int
	look := func(i int, now bool) {
		f := fetches[i]
		// The first batch comes whole whatever the limit; after it, only what
		// fits.
		limit := max(min(int(f.GetMaxBytes()), left), 0)
		out, final, later := r.one(ctx, i, f, limit, total > 0, now)
		response.Fetched[i] = out
		total += len(out.GetBatches())
		left -= len(out.GetBatches())
		enough = enough || final
		if later {
			pending = append(pending, i)
		}
	}
	for i := range fetches {
		look(i, true)
	}
	for _, i := range pending {
		if enough || total > 0 {
			break
		}
		look(i, false)
	}
	// Nobody is woken when what is on its way comes.
	enough = enough || len(pending) > 0
	return response, enough || total >= max(int(r.request.GetMinBytes()), 1)
}

// one reads one partition. It is final when waiting would not change it, and later
// when there is more that is not at hand.
func (r *reading) one(ctx context.Context, i int, f *storagev1.FetchRequest_PartitionFetch, limit int, strict, now bool) (out *storagev1.FetchResponse_PartitionFetched, final, later bool) {
	out = &storagev1.FetchResponse_PartitionFetched{NextOffset: f.GetOffset(), Offset: f.GetOffset()}
	if err := r.unknown[i]; err != nil {
		out.Error = partitionError(err)
		return out, true, false
	}
	fetched, err := r.partitions[i].Fetch(ctx, node.Fetch{
		Offset:    f.GetOffset(),
		MaxBytes:  limit,
		Epoch:     epochOf(f.CurrentLeaderEpoch),
		LastEpoch: epochOf(f.LastFetchedEpoch),
		Clamp:     f.GetClamp(),
		Strict:    strict,
		Now:       now,
	})
	if view := fetched.View; view != nil {
		out.HighWatermark = view.HighWatermark
		out.LastStableOffset = view.HighWatermark
		out.LogStartOffset = view.State.StartOffset
		out.LogEndOffset = view.LogEnd
	}
	if err != nil {
		out.Error = partitionError(err)
		return out, true, false
	}
	if d := fetched.Diverging; d != nil {
		out.Diverging = &storagev1.FetchResponse_DivergingEpoch{Epoch: d.Epoch, EndOffset: d.End}
		return out, true, false
	}
	out.Offset, out.NextOffset, out.Batches = fetched.Offset, fetched.Next, fetched.Batches
	// A gap without a batch is progress too: the caller goes on behind it.
	return out, len(out.Batches) == 0 && out.NextOffset > out.Offset, fetched.Pending
}
