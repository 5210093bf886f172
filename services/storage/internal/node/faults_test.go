package node

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// clock is a wall clock that a test sets.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ns.Store(time.Unix(1_700_000_000, 0).UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.ns.Load()) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

// fault fails operations below one partition's folder.
type fault struct {
	under string
	ops   func(faultfs.Op) bool
	err   error

	mu sync.Mutex
	// from and until are which of the matching operations fail, counted from 1:
	// from <= n < until.
	from, until int
	count       int
	// failed are the operations that failed.
	failed []failedOp
}

type failedOp struct {
	op   faultfs.Op
	name string
}

func (f *fault) hook(op faultfs.Op, name string) error {
	if !strings.HasPrefix(name, f.under) || !f.ops(op) {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count++; f.count < f.from || f.count >= f.until {
		return nil
	}
	f.failed = append(f.failed, failedOp{op, filepath.Base(name)})
	return fmt.Errorf("%s of %s: %w", op, name, f.err)
}

// next fails the next n matching operations.
func (f *fault) next(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.from, f.until = f.count+1, f.count+1+n
}

// happened returns the operations that failed.
func (f *fault) happened() []failedOp {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.failed)
}

func isWrite(op faultfs.Op) bool { return op == faultfs.WriteAt || op == faultfs.WritevAt }

func isSync(op faultfs.Op) bool {
	return op == faultfs.Datasync || op == faultfs.Sync || op == faultfs.SyncDir
}

// faulty is a node with two partitions, of which the first one's disk fails when
// a test says so.
type faulty struct {
	*running
	disk  *memfs.FS
	clock *clock
	fault *fault
	topic uuid.UUID
	acked []string
	other []string
}

func newFaulty(t *testing.T, ops func(faultfs.Op) bool, err error) *faulty {
	f := &faulty{disk: memfs.New(), clock: newClock(), topic: uuid.New()}
	f.fault = &fault{under: fmt.Sprintf("%s/%s/%s/0", dir, topicsFolder, f.topic), ops: ops, err: err}
	o := options(faultfs.New(f.disk, f.fault.hook))
	o.Now = f.clock.now
	o.Defaults.SegmentBytes = 1024
	f.running = start(t, o)
	require.NoError(t, f.Place([]*persistv1.CatalogTopic{placement(f.topic, 2, nil, 1)}))
	return f
}

func (f *faulty) write() error {
	value := fmt.Sprintf("v%d", len(f.acked))
	result, err := appendTo(f.partition(f.topic, 0), batchOf(f.t, value))
	if err != nil {
		return err
	}
	require.Equal(f.t, int64(len(f.acked)), result.BaseOffset)
	f.acked = append(f.acked, value)
	return nil
}

// untouched: the other partition takes no notice.
func (f *faulty) untouched() {
	f.t.Helper()
	value := fmt.Sprintf("o%d", len(f.other))
	_, err := appendTo(f.partition(f.topic, 1), batchOf(f.t, value))
	require.NoError(f.t, err)
	f.other = append(f.other, value)
	require.Equal(f.t, f.other, values(f.t, f.partition(f.topic, 1)))
}

// reopened is the same disk under a new process.
func (f *faulty) reopened() *running {
	f.t.Helper()
	_ = f.stop()
	return start(f.t, options(f.disk.Kill()))
}

func TestFullDiskRecoversByItself(t *testing.T) {
	f := newFaulty(t, isWrite, syscall.ENOSPC)
	for range 5 {
		require.NoError(t, f.write())
	}
	f.fault.next(1_000_000)
	require.ErrorIs(t, f.write(), replica.ErrUnknownOutcome)
	f.untouched()
	for range 3 {
		require.ErrorIs(t, f.write(), ErrNoSpace, "not before its pause")
		require.Equal(t, f.acked, values(t, f.partition(f.topic, 0)), "it is read all the same")
	}
	tries := len(f.fault.happened())

	f.clock.advance(reopenPause)
	err := f.write()
	require.Error(t, err, "the disk is full still")
	require.Greater(t, len(f.fault.happened()), tries)
	require.Equal(t, f.acked, values(t, f.partition(f.topic, 0)))
	f.untouched()

	f.fault.next(0)
	f.clock.advance(reopenPause)
	require.Equal(t, f.acked, values(t, f.partition(f.topic, 0)))
	require.NoError(t, f.write())
	require.NoError(t, f.write())
	require.Equal(t, f.acked, values(t, f.partition(f.topic, 0)))
	require.NoError(t, f.stop())
	require.Equal(t, f.acked, values(t, f.reopened().partition(f.topic, 0)))
}

// What makes room goes on while there is none for appends: it writes little, and
// shares no write with them.
func TestRetentionMakesRoomOnAFullDisk(t *testing.T) {
	f := newFaulty(t, func(op faultfs.Op) bool { return op == faultfs.WritevAt }, syscall.ENOSPC)
	for range 50 {
		require.NoError(t, f.write())
	}
	require.NoError(t, f.Place([]*persistv1.CatalogTopic{placement(f.topic, 2, map[string]string{"retention.bytes": "1"}, 2)}))
	f.fault.next(1_000_000)
	require.ErrorIs(t, f.write(), replica.ErrUnknownOutcome)
	require.ErrorIs(t, f.write(), ErrNoSpace)

	failures, err := f.RunPass(t.Context(), Retention, true)
	require.NoError(t, err)
	require.Empty(t, failures)
	d, err := f.partition(f.topic, 0).Describe(t.Context())
	require.NoError(t, err)
	require.Greater(t, d.View.State.StartOffset, int64(20))
	require.LessOrEqual(t, d.Segments, 2)
	require.ErrorIs(t, f.write(), ErrNoSpace, "not before its pause")

	f.fault.next(0)
	f.clock.advance(reopenPause)
	require.NoError(t, f.write())
	require.Equal(t, f.acked[d.View.State.StartOffset:], values(t, f.partition(f.topic, 0)))
}

func TestFailedSyncIsFinal(t *testing.T) {
	f := newFaulty(t, isSync, syscall.EIO)
	for range 5 {
		require.NoError(t, f.write())
	}
	f.fault.next(1)
	require.ErrorIs(t, f.write(), replica.ErrUnknownOutcome)
	for range 3 {
		f.clock.advance(time.Hour)
		require.ErrorIs(t, f.write(), ErrDisk, "what the page cache holds is not known any more")
		_, err := f.partition(f.topic, 0).Describe(t.Context())
		require.ErrorIs(t, err, ErrDisk)
		f.untouched()
	}
	// The kernel dropped the pages that it could not write.
	f.disk = f.disk.Crash(nil)
	again := f.reopened()
	require.Equal(t, f.acked, values(t, again.partition(f.topic, 0)))
	result, err := appendTo(again.partition(f.topic, 0), batchOf(t, "after"))
	require.NoError(t, err)
	require.Equal(t, int64(len(f.acked)), result.BaseOffset)
}

// Each operation that a partition's life has, from its first append over rolls,
// sleep, and an advance of its start, is the one that fails once.
func TestAnyOperationMayFail(t *testing.T) {
	everything := func(op faultfs.Op) bool { return op != faultfs.Close }
	for n := 1; ; n++ {
		f := newFaulty(t, everything, syscall.EIO)
		f.fault.from, f.fault.until = n, n+1
		started, failed := int64(0), false
		for i := range 30 {
			// One that failed may be there all the same; see below.
			if failed = f.write() != nil; failed {
				break
			}
			if i == 20 {
				if start, err := f.partition(f.topic, 0).AdvanceStart(t.Context(), 12); err == nil {
					started = start
				}
			}
			if i == 25 {
				p := f.partition(f.topic, 0)
				p.sleep()
				_ = p.await(false, func(*replica.Replica) error { return nil })
			}
		}
		happened := f.fault.happened()
		f.untouched()
		f.clock.advance(reopenPause)
		// The sync of zeros that are written ahead fails no append.
		if failed && isSync(happened[0].op) && len(f.acked) > 0 {
			require.ErrorIs(t, f.write(), ErrDisk, "operation %d, %v, is final", n, happened)
		}
		f.disk = f.disk.Crash(nil)
		again := f.reopened()
		p := again.partition(f.topic, 0)
		got := values(t, p)
		d, err := p.Describe(t.Context())
		require.NoError(t, err)
		start := int(d.View.State.StartOffset)
		require.GreaterOrEqual(t, start, int(started))
		require.GreaterOrEqual(t, start+len(got), len(f.acked), "operation %d, %v", n, happened)
		require.True(t, start >= len(f.acked) || slices.Equal(f.acked[start:], got[:len(f.acked)-start]), "operation %d, %v", n, happened)
		require.Equal(t, f.other, values(t, again.partition(f.topic, 1)))
		require.NoError(t, again.stop())
		if len(happened) == 0 {
			require.Greater(t, n, 50)
			return
		}
	}
}

// A topic that cannot be noted is not placed, and the node goes on. As soon as the
// disk takes writes again the same process places and removes.
func TestPlacementOnAFailingDisk(t *testing.T) {
	for name, ops := range map[string]func(faultfs.Op) bool{"full": isWrite, "failed sync": isSync} {
		t.Run(name, func(t *testing.T) {
			disk := memfs.New()
			f := &fault{under: dir + "/catalog", ops: ops, err: syscall.ENOSPC}
			r := start(t, options(faultfs.New(disk, f.hook)))
			kept, lost, gone := uuid.New(), uuid.New(), uuid.New()
			require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(kept, 1, nil, 1), placement(gone, 1, nil, 1)}))
			f.next(1_000_000)
			for range 2 {
				require.ErrorIs(t, r.Place([]*persistv1.CatalogTopic{placement(lost, 1, nil, 1)}), ErrDisk)
				require.ErrorIs(t, r.Remove([]uuid.UUID{gone}, 1), ErrDisk)
				_, err := r.Partition(replica.Key{Topic: lost})
				require.ErrorIs(t, err, ErrUnknownPartition)
				_, err = appendTo(r.partition(kept, 0), batchOf(t, "x"))
				require.NoError(t, err)
				_, err = appendTo(r.partition(gone, 0), batchOf(t, "y"))
				require.NoError(t, err)
			}
			f.next(0)
			require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(lost, 1, nil, 1)}))
			require.NoError(t, r.Remove([]uuid.UUID{gone}, 1))
			after := disk.Crash(nil)
			require.NoError(t, r.stop())

			again := start(t, options(after))
			require.Equal(t, []string{"x", "x"}, values(t, again.partition(kept, 0)))
			require.Empty(t, values(t, again.partition(lost, 0)))
			_, err := again.Partition(replica.Key{Topic: gone})
			require.ErrorIs(t, err, ErrUnknownPartition)
		})
	}
}

// A partition that met a bug does not blame its disk.
func TestWhatCallersAreTold(t *testing.T) {
	for told, err := range map[string]error{
		"the replica on node n1 is damaged":                                          raftlog.ErrDamaged,
		"no space left on the disk of node n1":                                       syscall.ENOSPC,
		"the quota on the disk of node n1 is used up":                                syscall.EDQUOT,
		"the disk of node n1 is read-only":                                           syscall.EROFS,
		"the disk of node n1 reported an I/O error":                                  syscall.EIO,
		"the disk of node n1 failed":                                                 syscall.EBADF,
		"a fault of the server on node n1; the partition is opened anew in a moment": errPanic,
	} {
		failure := &FailureError{Node: "n1", Err: diskFailure(fmt.Errorf("write /data/0.log: %w", err))}
		require.Equal(t, told, failure.Told())
		require.ErrorIs(t, failure, err)
		require.ErrorContains(t, failure, "/data/0.log", "the log has it")
	}
}
