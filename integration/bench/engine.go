package bench

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/rpc"
	"github.com/sluiceio/sluice/services/storage"
)

// engine is a storage node in this process, called as a gateway beside it would.
type engine struct {
	dir   string
	topic uuid.UUID
	node  *storage.Service
	log   storagev1.StorageServiceClient
}

// newEngine starts a node with one topic. It ends with the benchmark.
func newEngine(b testing.TB, partitions int) *engine {
	b.Helper()
	var cfg storage.Config
	flags := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	cfg.RegisterFlags(flags)
	cfg.Dir = b.TempDir()
	logger := slog.New(slog.DiscardHandler)
	node, err := storage.New(cfg, storage.Deps{Logger: logger, Registerer: prometheus.NewRegistry(), NodeID: "n"})
	require.NoError(b, err)
	local := rpc.NewLocal(rpc.Options{Logger: logger})
	node.Register(local)

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	b.Cleanup(func() {
		local.Stop()
		cancel()
		if err := <-ended; err != nil {
			b.Errorf("storage: %v", err)
		}
	})
	require.Eventually(b, func() bool { return node.Ready() == nil }, 10*time.Second, time.Millisecond)

	e := &engine{dir: cfg.Dir, topic: uuid.New(), node: node, log: storagev1.NewStorageServiceClient(local)}
	placement := &storagev1.PlaceReplicasRequest_TopicPlacement{TopicId: e.topic[:], Name: "bench"}
	for partition := range int32(partitions) {
		placement.Partitions = append(placement.Partitions, &storagev1.PlaceReplicasRequest_PartitionPlacement{
			Partition: partition, ReplicaId: 1,
			Voters: []*storagev1.PlaceReplicasRequest_Voter{{ReplicaId: 1, Node: "n"}},
		})
	}
	_, err = storagev1.NewReplicaServiceClient(local).PlaceReplicas(b.Context(), &storagev1.PlaceReplicasRequest{
		Topics: []*storagev1.PlaceReplicasRequest_TopicPlacement{placement},
	})
	require.NoError(b, err)
	return e
}

func (e *engine) partition(number int32) *storagev1.Partition {
	return &storagev1.Partition{TopicId: e.topic[:], Partition: number}
}

// append returns when a batch is on disk.
func (e *engine) append(ctx context.Context, partition int32, batch []byte) error {
	response, err := e.log.Append(ctx, &storagev1.AppendRequest{
		Origin:  storagev1.Origin_ORIGIN_CLIENT,
		Appends: []*storagev1.AppendRequest_PartitionAppend{{Partition: e.partition(partition), Batches: batch}},
	})
	if err != nil {
		return err
	}
	if failed := response.Appended[0].Error; failed != nil {
		return fmt.Errorf("append: %s: %s", failed.Code, failed.Message)
	}
	return nil
}
