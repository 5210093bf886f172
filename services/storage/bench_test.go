package storage_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/headroom"
	"github.com/sluiceio/sluice/services/kit/rpc"
	"github.com/sluiceio/sluice/services/storage"
)

// BenchmarkAppend is what an append of one record of 1 KiB costs in CPU, from the
// in-process connection to the disk and back, and how many share a sync. Put
// TMPDIR on a tmpfs to leave out the disk. Other than its rate, CPU and
// allocations depend little on what else the machine does.
func BenchmarkAppend(b *testing.B) {
	headroom.Keep(headroom.OfService)
	for _, shape := range []struct{ partitions, callers, size int }{
		{1, 1, 1 << 10}, {1, 8, 1 << 10}, {1, 64, 1 << 10}, {1, 256, 1 << 10}, {64, 256, 1 << 10}, {1, 8, 256 << 10},
	} {
		b.Run(fmt.Sprintf("partitions=%d/callers=%d/bytes=%d", shape.partitions, shape.callers, shape.size), func(b *testing.B) {
			registry := prometheus.NewRegistry()
			log, topic := benchNode(b, registry, shape.partitions)
			batch := batchOf(b, string(make([]byte, shape.size)))
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			syncs, cpu := observations(b, registry, "sluice_disk_sync_seconds"), cpuTime(b)
			b.ResetTimer()
			var group sync.WaitGroup
			for caller := range shape.callers {
				group.Go(func() {
					for left.Add(-1) >= 0 {
						response, err := log.Append(b.Context(), &storagev1.AppendRequest{
							Origin: storagev1.Origin_ORIGIN_CLIENT,
							Appends: []*storagev1.AppendRequest_PartitionAppend{{
								Partition: &storagev1.Partition{TopicId: topic[:], Partition: int32(caller % shape.partitions)},
								Batches:   batch,
							}},
						})
						if err != nil || response.Appended[0].Error != nil {
							b.Errorf("append: %v, %v", err, response)
							return
						}
					}
				})
			}
			group.Wait()
			b.StopTimer()
			b.ReportMetric(float64((cpuTime(b)-cpu).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(b.N)/(observations(b, registry, "sluice_disk_sync_seconds")-syncs), "appends/sync")
		})
	}
}

// benchNode starts a node with one topic and the defaults of the flags.
func benchNode(b *testing.B, registry *prometheus.Registry, partitions int) (storagev1.StorageServiceClient, uuid.UUID) {
	cfg := defaults(b.TempDir())
	service, err := storage.New(cfg, storage.Deps{Logger: slog.New(slog.DiscardHandler), Registerer: registry, NodeID: "n1"})
	require.NoError(b, err)
	local := rpc.NewLocal(rpc.Options{Logger: slog.New(slog.DiscardHandler)})
	service.Register(local)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- service.Run(ctx) }()
	b.Cleanup(func() {
		local.Stop()
		cancel()
		if err := <-stopped; err != nil {
			b.Errorf("stop: %v", err)
		}
	})
	require.Eventually(b, func() bool { return service.Ready() == nil }, patience, time.Millisecond)
	id := uuid.New()
	_, err = storagev1.NewReplicaServiceClient(local).PlaceReplicas(b.Context(), &storagev1.PlaceReplicasRequest{
		Topics: []*storagev1.PlaceReplicasRequest_TopicPlacement{topicPlacement(id, partitions, nil, 1)},
	})
	require.NoError(b, err)
	return storagev1.NewStorageServiceClient(local), id
}

// observations counts those of a histogram.
func observations(b *testing.B, registry *prometheus.Registry, name string) (n float64) {
	families, err := registry.Gather()
	require.NoError(b, err)
	for _, family := range families {
		if family.GetName() == name {
			return float64(family.Metric[0].GetHistogram().GetSampleCount())
		}
	}
	b.Fatalf("no series %s", name)
	return 0
}

// cpuTime is what the process has used so far.
func cpuTime(b *testing.B) time.Duration {
	var usage unix.Rusage
	require.NoError(b, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
