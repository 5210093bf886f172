package storage_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/topicconfig"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage"
)

// over is the same topic on another suite.
func (t *topic) over(s *suite) *topic { return &topic{s: s, id: t.id} }

func TestRestart(t *testing.T) {
	for name, disk := range map[string]func(*testing.T) (vfs.FS, storage.Config){
		"memory": func(*testing.T) (vfs.FS, storage.Config) { return memfs.New(), config("data") },
		"disk":   func(t *testing.T) (vfs.FS, storage.Config) { return vfs.OS, config(t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			fsys, cfg := disk(t)
			first := serve(t, fsys, cfg, overLocal)
			before := first.topic(2, nil)
			shard := first.internal()
			before.written(0, "a", "b")
			_, err := first.replicas.Fence(t.Context(), &storagev1.FenceRequest{Partition: shard.partition(0), OwnerEpoch: 6})
			require.NoError(t, err)
			first.advance(before.partition(0), 1)
			epoch := first.list(before.partition(0), -1).GetLeaderEpoch()

			_, err = storage.New(cfg, storage.Deps{
				Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), NodeID: "n1", FS: fsys,
			})
			require.ErrorIs(t, err, vfs.ErrLocked, "a second process")
			require.NoError(t, first.stop())

			second := serve(t, fsys, cfg, overTCP)
			after := before.over(second)
			require.Equal(t, map[int64]string{0: "a", 1: "b"}, valuesOf(t, second.fetchOne(after.from(0, 1)).GetBatches()))
			require.Equal(t, int64(1), second.list(after.partition(0), -2).GetOffset())
			require.Equal(t, int64(2), after.written(0, "c").GetBaseOffset())
			newer := second.list(after.partition(0), -1).GetLeaderEpoch()
			require.Greater(t, newer, epoch, "a new leadership")
			ends, err := second.storage.EpochEnd(t.Context(), &storagev1.EpochEndRequest{
				Epochs: []*storagev1.EpochEndRequest_PartitionEpoch{{Partition: after.partition(0), Epoch: epoch}},
			})
			require.NoError(t, err)
			require.Equal(t, int64(2), ends.GetEnds()[0].GetEndOffset())

			f := after.from(0, 3)
			f.LastFetchedEpoch = &epoch
			diverging := second.fetchOne(f).GetDiverging()
			require.Equal(t, epoch, diverging.GetEpoch())
			require.Equal(t, int64(2), diverging.GetEndOffset(), "the old epoch had no more than that")

			late := shard.over(second).to(0, batchOf(t, "x"))
			five := int64(5)
			late.OwnerEpoch = &five
			requireCode(t, storagev1.ErrorCode_ERROR_CODE_FENCED_OWNER, second.append(storagev1.Origin_ORIGIN_COORDINATOR, late).GetError())
		})
	}
}

// A damaged partition says so, to callers and to who watches; the others serve.
func TestDamage(t *testing.T) {
	disk := memfs.New()
	first := serve(t, disk, config("data"), overLocal)
	before := first.topic(2, nil)
	for range 3 {
		before.written(0, "a")
		before.written(1, "a")
	}
	require.NoError(t, first.stop())
	log, err := disk.Open(fmt.Sprintf("data/topics/%s/0/%020d.log", before.id, 0))
	require.NoError(t, err)
	_, err = log.WriteAt([]byte("!"), 150)
	require.NoError(t, err)
	require.NoError(t, log.Close())

	second := serve(t, disk, config("data"), overTCP)
	after := before.over(second)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := second.replicas.WatchReplicas(ctx, &storagev1.WatchReplicasRequest{})
	require.NoError(t, err)
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_DAMAGED, second.fetchOne(after.from(0, 0)).GetError())
	require.Empty(t, second.fetchOne(after.from(0, 0)).GetBatches())
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_DAMAGED, after.appendOne(0, batchOf(t, "x")).GetError())
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_DAMAGED, second.list(after.partition(0), -1).GetError())
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_DAMAGED, second.advance(after.partition(0), 1).GetError())
	require.Len(t, valuesOf(t, second.fetchOne(after.from(1, 0)).GetBatches()), 3)
	require.Equal(t, int64(3), after.written(1, "b").GetBaseOffset())

	d, err := second.storage.Describe(t.Context(), &storagev1.DescribeRequest{Partitions: []*storagev1.Partition{after.partition(0)}})
	require.NoError(t, err)
	require.Equal(t, "damaged", d.GetDescriptions()[0].GetRole())
	require.EqualValues(t, 1, second.gauge("sluice_storage_failed_partitions", "damaged"))
	require.Zero(t, second.gauge("sluice_storage_failed_partitions", "failed"))
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_DAMAGED, d.GetDescriptions()[0].GetError())

	for reported := false; !reported; {
		message, err := stream.Recv()
		require.NoError(t, err)
		for _, report := range message.GetTopics() {
			for i, p := range report.GetPartitions() {
				require.False(t, p == 1 && report.GetDamaged()[i])
				reported = reported || p == 0 && report.GetDamaged()[i]
			}
		}
	}
}

// A disk that refuses a write: what was under way may or may not be there, what
// comes after is refused, and a while later all is well.
func TestDiskThatIsFullForAWhile(t *testing.T) {
	var full atomic.Bool
	fsys := faultfs.New(memfs.New(), func(op faultfs.Op, name string) error {
		if full.Load() && op == faultfs.WritevAt && strings.Contains(name, "/0/") {
			return syscall.ENOSPC
		}
		return nil
	})
	clock := newClock()
	s := serveDeps(t, config("data"), storage.Deps{FS: fsys, Now: clock.now}, overTCP)
	orders := s.topic(2, nil)
	orders.written(0, "a")
	full.Store(true)
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME, orders.appendOne(0, batchOf(t, "b")).GetError())
	refused := orders.appendOne(0, batchOf(t, "c")).GetError()
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_NO_SPACE, refused)
	require.Equal(t, "no space left on the disk of node n1", refused.GetMessage())
	require.Equal(t, map[int64]string{0: "a"}, valuesOf(t, s.fetchOne(orders.from(0, 0)).GetBatches()), "it is read on")
	d := s.describe(orders.partition(0))
	require.Nil(t, d.GetError())
	require.Equal(t, int64(1), d.GetHighWatermark())
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_NO_SPACE, d.GetRefusesAppends())
	require.EqualValues(t, 1, s.gauge("sluice_storage_failed_partitions", "no_space"))
	require.Nil(t, s.describe(orders.partition(1)).GetRefusesAppends())
	orders.written(1, "x")
	full.Store(false)
	requireCode(t, storagev1.ErrorCode_ERROR_CODE_NO_SPACE, orders.appendOne(0, batchOf(t, "c")).GetError(), "not yet")
	clock.advance(2 * time.Second)
	orders.written(0, "d")
	require.Nil(t, s.describe(orders.partition(0)).GetRefusesAppends())
	require.Zero(t, s.gauge("sluice_storage_failed_partitions", "no_space"))
	require.Equal(t, map[int64]string{0: "a", 1: "d"}, valuesOf(t, s.fetchOne(orders.from(0, 0)).GetBatches()))
}

func TestConfigFaultsAreReportedTogether(t *testing.T) {
	cfg := config("")
	require.ErrorContains(t, cfg.Validate(), "storage folder is empty")
	cfg = config("data")
	require.NoError(t, cfg.Validate())
	cfg.SegmentBytes, cfg.FlushEveryRecords, cfg.Workers, cfg.MaxAppendBytes = 1, 0, 0, 0
	err := cfg.Validate()
	for _, flag := range []string{"--segment-bytes", "--flush-every-records", "--storage-workers", "--storage-max-append-bytes"} {
		require.ErrorContains(t, err, flag)
	}
	_, err = storage.New(cfg, storage.Deps{})
	require.Error(t, err)
}

// What a topic gets that does not set a config stands in one table, also where it is
// an option of the node.
func TestDefaultsAreThoseOfTheTable(t *testing.T) {
	cfg := defaults("data")
	require.Equal(t, topicconfig.Int(nil, "segment.bytes"), cfg.SegmentBytes)
	require.Equal(t, topicconfig.Int(nil, "max.message.bytes"), int64(cfg.MaxMessageBytes))
	require.Equal(t, topicconfig.Int(nil, "local.retention.ms"), cfg.ColdLocalRetentionMs)
	require.Equal(t, topicconfig.Int(nil, "local.retention.bytes"), cfg.ColdLocalRetentionBytes)
}
