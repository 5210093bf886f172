package storage_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage"
)

// describe describes one partition.
func (s *suite) describe(partition *storagev1.Partition) *storagev1.DescribeResponse_PartitionDescription {
	s.t.Helper()
	response, err := s.storage.Describe(s.t.Context(), &storagev1.DescribeRequest{Partitions: []*storagev1.Partition{partition}})
	require.NoError(s.t, err)
	require.Len(s.t, response.GetDescriptions(), 1)
	return response.GetDescriptions()[0]
}

// gauge is the whole number that a series with these values of its labels has.
func (s *suite) gauge(name string, labels ...string) int64 {
	s.t.Helper()
	families, err := s.series.Gather()
	require.NoError(s.t, err)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var has []string
			for _, label := range metric.GetLabel() {
				has = append(has, label.GetValue())
			}
			if family.GetName() == name && fmt.Sprint(has) == fmt.Sprint(labels) {
				return int64(metric.GetGauge().GetValue())
			}
		}
	}
	s.t.Fatalf("no series %s of %v", name, labels)
	return 0
}

// While less is free than is to be kept, clients' appends are refused and all else
// goes on; with enough they are taken again without anybody doing anything.
func TestAppendsAreRefusedBeforeTheDiskIsFull(t *testing.T) {
	for name, connect := range map[string]connection{"local": overLocal, "tcp": overTCP} {
		t.Run(name, func(t *testing.T) {
			var free atomic.Int64
			free.Store(5000)
			var log bytes.Buffer
			cfg := config("data")
			cfg.MinFreeBytes = 5000
			s := serveDeps(t, cfg, storage.Deps{
				FS: memfs.New(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Space: func() (vfs.Space, error) { return vfs.Space{Free: free.Load(), Size: 1 << 20}, nil },
			}, connect)
			orders, shard := s.topic(1, nil), s.internal()
			orders.written(0, "a")

			free.Store(4999)
			end := int64(1)
			var refused *storagev1.PartitionError
			require.Eventually(t, func() bool {
				if refused = orders.appendOne(0, batchOf(t, "b")).GetError(); refused == nil {
					end++
				}
				return refused != nil
			}, patience, 10*time.Millisecond)
			requireCode(t, storagev1.ErrorCode_ERROR_CODE_NO_SPACE, refused)
			require.Equal(t, "no space left on the disk of node n1", refused.GetMessage())
			prepared, err := s.storage.Prepare(t.Context(), &storagev1.PrepareRequest{
				Purpose: storagev1.Purpose_PURPOSE_SEQUENCED_APPEND, ProducerId: 1<<62 | 1,
				Partitions: []*storagev1.PrepareRequest_PartitionPrepare{{Partition: orders.partition(0), Sequences: []int64{1}}},
			})
			require.NoError(t, err)
			requireCode(t, storagev1.ErrorCode_ERROR_CODE_NO_SPACE, prepared.GetPrepared()[0].GetError())

			require.Equal(t, "a", valuesOf(t, s.fetchOne(orders.from(0, 0)).GetBatches())[0], "it is read")
			d := s.describe(orders.partition(0))
			require.Equal(t, end, d.GetHighWatermark())
			requireCode(t, storagev1.ErrorCode_ERROR_CODE_NO_SPACE, d.GetRefusesAppends())
			epoch, commit := int64(1), shard.to(0, batchOf(t, "commit"))
			commit.OwnerEpoch = &epoch
			require.Nil(t, s.append(storagev1.Origin_ORIGIN_COORDINATOR, commit).GetError(), "groups commit what they have read")
			require.Nil(t, s.describe(shard.partition(0)).GetRefusesAppends())
			require.Nil(t, s.advance(orders.partition(0), 1).GetError(), "room can be made")
			require.EqualValues(t, 4999, s.gauge("sluice_storage_disk_free_bytes"))
			require.EqualValues(t, 1<<20, s.gauge("sluice_storage_disk_size_bytes"))

			free.Store(5000)
			require.Eventually(t, func() bool { return orders.appendOne(0, batchOf(t, "c")).GetError() == nil }, patience, time.Millisecond)
			require.Nil(t, s.describe(orders.partition(0)).GetRefusesAppends())
			require.NoError(t, s.stop())
			require.Equal(t, 1, strings.Count(log.String(), "appends are refused"), "it is said once")
			require.Equal(t, 1, strings.Count(log.String(), "appends go on"))
		})
	}
}

// A disk whose size is not known refuses nothing.
func TestUnknownSpaceRefusesNothing(t *testing.T) {
	cfg := config("data")
	cfg.MinFreeBytes = 1 << 40
	s := serveDeps(t, cfg, storage.Deps{
		FS: memfs.New(), Space: func() (vfs.Space, error) { return vfs.Space{}, errors.New("gone") },
	}, overLocal)
	s.topic(1, nil).written(0, "a")
}

// What a disk refuses with is told apart: to callers without any file, and in the
// log with all of it.
func TestDiskFaultsAreToldApart(t *testing.T) {
	for fault, want := range map[syscall.Errno]struct {
		code    storagev1.ErrorCode
		message string
		logged  string
	}{
		syscall.ENOSPC: {storagev1.ErrorCode_ERROR_CODE_NO_SPACE, "no space left on the disk of node n1", "no space left"},
		syscall.EDQUOT: {storagev1.ErrorCode_ERROR_CODE_NO_SPACE, "the quota on the disk of node n1 is used up", "its quota is used up"},
		syscall.EROFS:  {storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED, "the disk of node n1 is read-only", "it is read-only"},
		syscall.EIO:    {storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED, "the disk of node n1 reported an I/O error", "I/O error"},
		syscall.EBADF:  {storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED, "the disk of node n1 failed", "the disk failed"},
	} {
		t.Run(fault.Error(), func(t *testing.T) {
			var failing atomic.Bool
			fsys := faultfs.New(memfs.New(), func(op faultfs.Op, name string) error {
				if failing.Load() && op == faultfs.WritevAt {
					return &os.PathError{Op: "write", Path: name, Err: fault}
				}
				return nil
			})
			var log bytes.Buffer
			s := serveDeps(t, config("data"), storage.Deps{
				FS: fsys, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				// It stands: the disk is not tried again in between.
				Now: newClock().now,
			}, overLocal)
			orders := s.topic(1, nil)
			orders.written(0, "a")
			failing.Store(true)
			requireCode(t, storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME, orders.appendOne(0, batchOf(t, "b")).GetError())
			refused := orders.appendOne(0, batchOf(t, "c")).GetError()
			requireCode(t, want.code, refused)
			require.Equal(t, want.message, refused.GetMessage())
			require.NoError(t, s.stop())
			require.Contains(t, log.String(), "partition has failed")
			require.Contains(t, log.String(), want.logged)
			require.Contains(t, log.String(), fault.Error())
			require.Contains(t, log.String(), ".log", "the log names the file")
		})
	}
}

// A file system that is small and really full. Appends go on by themselves once
// somebody has made room; until then what is there is read.
func TestSmallDisk(t *testing.T) {
	const size = 4 << 20
	for name, keep := range map[string]int64{"until it is full": 0, "until little is left": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := mountSmall(t, dir, size); err != nil {
				t.Logf("no file system of its own (%v): one that says it is full", err)
				smallInMemory(t, size, keep)
				return
			}
			cfg := config(filepath.Join(dir, "data"))
			cfg.SegmentBytes, cfg.MinFreeBytes = 256<<10, keep
			require.NoError(t, os.Mkdir(cfg.Dir, 0o700))
			ballast := filepath.Join(dir, "ballast")
			require.NoError(t, os.WriteFile(ballast, make([]byte, size/4), 0o600))
			s := serveDeps(t, cfg, storage.Deps{}, overLocal)
			fillAndFree(t, s, func() { require.NoError(t, os.Remove(ballast)) })
			space, err := vfs.DiskSpace(dir)
			require.NoError(t, err)
			require.Equal(t, int64(size), space.Size)
			require.Greater(t, space.Free, keep/2)
		})
	}
}

// smallInMemory is TestSmallDisk where nothing can be mounted: a file system that
// takes so many writes, and so many more when there is room.
func smallInMemory(t *testing.T, size, keep int64) {
	var room atomic.Int64
	room.Store(size)
	fsys := faultfs.New(memfs.New(), func(op faultfs.Op, _ string) error {
		if op == faultfs.WritevAt && room.Add(-fillBytes) < 0 {
			return syscall.ENOSPC
		}
		return nil
	})
	cfg := config("data")
	cfg.SegmentBytes, cfg.MinFreeBytes = 256<<10, keep
	s := serveDeps(t, cfg, storage.Deps{
		FS: fsys, Space: func() (vfs.Space, error) { return vfs.Space{Free: room.Load(), Size: size}, nil },
	}, overLocal)
	fillAndFree(t, s, func() { room.Store(size / 4) })
}

// fillBytes is the size of one of fillAndFree's records.
const fillBytes = 32 << 10

// fillAndFree appends until the disk is full, looks whether all that was
// acknowledged is read then, and makes room.
func fillAndFree(t *testing.T, s *suite, free func()) {
	t.Helper()
	orders := s.topic(1, nil)
	acknowledged := map[int64]bool{}
	record := func() string { return strings.Repeat("x", fillBytes) }
	var refused *storagev1.PartitionError
	for refused.GetCode() != storagev1.ErrorCode_ERROR_CODE_NO_SPACE {
		appended := orders.appendOne(0, batchOf(t, record()))
		if refused = appended.GetError(); refused == nil {
			acknowledged[appended.GetBaseOffset()] = true
		} else if refused.GetCode() != storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME {
			requireCode(t, storagev1.ErrorCode_ERROR_CODE_NO_SPACE, refused)
		}
	}
	require.Equal(t, "no space left on the disk of node n1", refused.GetMessage())
	require.Greater(t, len(acknowledged), 10)
	readAll := func() {
		t.Helper()
		read := map[int64]string{}
		for offset, next := int64(0), int64(-1); next != offset; {
			if next >= 0 {
				offset = next
			}
			fetched := s.fetchOne(orders.from(0, offset))
			require.Nil(t, fetched.GetError(), "it is read on")
			for at, value := range valuesOf(t, fetched.GetBatches()) {
				read[at] = value
			}
			next = fetched.GetNextOffset()
		}
		for offset := range acknowledged {
			require.Equal(t, record(), read[offset], "offset %d", offset)
		}
	}
	readAll()
	free()
	require.Eventually(t, func() bool {
		appended := orders.appendOne(0, batchOf(t, record()))
		if appended.GetError() == nil {
			acknowledged[appended.GetBaseOffset()] = true
		}
		return appended.GetError() == nil
	}, patience, 10*time.Millisecond, "appends go on by themselves")
	readAll()
	require.NoError(t, s.stop())
}
