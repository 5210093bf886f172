package node

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
)

// datedBatch is a batch of one record of 1,000 bytes with a timestamp.
func datedBatch(t testing.TB, at time.Time) []byte {
	t.Helper()
	b := recordbatch.NewBuilder(recordbatch.Options{})
	b.Append(at.UnixMilli(), []byte("k"), make([]byte, 1000), nil)
	batch, err := b.Finish()
	require.NoError(t, err)
	return batch
}

func num(n int64) string { return strconv.FormatInt(n, 10) }

func mustPass(t *testing.T, r *running, pass Pass) {
	t.Helper()
	failures, err := r.RunPass(t.Context(), pass, true)
	require.NoError(t, err)
	require.Empty(t, failures)
}

func startOffset(t *testing.T, p *Partition) int64 {
	t.Helper()
	d, err := p.Describe(t.Context())
	require.NoError(t, err)
	return d.View.State.StartOffset
}

// hourly appends six batches, an hour apart, of which a segment holds two; the
// clock of the node goes with them.
func hourly(t *testing.T, c *clock, p *Partition, dated func(hour int) time.Time) {
	t.Helper()
	for hour := range 6 {
		_, err := appendTo(p, datedBatch(t, dated(hour)))
		require.NoError(t, err)
		c.advance(time.Hour)
	}
}

func TestRetention(t *testing.T) {
	hour := time.Hour.Milliseconds()
	for name, test := range map[string]struct {
		config map[string]string
		dated  func(now time.Time, hour int) time.Time
		want   int64
	}{
		// Segments hold hours 0 and 1, 2 and 3, and the active one 4 and 5; it is
		// 6 now.
		"by time":                      {config: map[string]string{"retention.ms": num(hour * 4)}, want: 2},
		"by time, all":                 {config: map[string]string{"retention.ms": "1"}, want: 4},
		"by size":                      {config: map[string]string{"retention.bytes": "4000"}, want: 2},
		"by size, all":                 {config: map[string]string{"retention.bytes": "0"}, want: 4},
		"neither":                      {config: map[string]string{"retention.ms": "-1"}, want: 0},
		"a week by default":            {want: 0},
		"compacted topics keep all":    {config: map[string]string{"cleanup.policy": "compact", "retention.ms": "1"}, want: 0},
		"both policies":                {config: map[string]string{"cleanup.policy": "compact,delete", "retention.ms": num(hour * 4)}, want: 2},
		"a far future delays nothing":  {config: map[string]string{"retention.ms": num(hour * 4)}, dated: func(now time.Time, _ int) time.Time { return now.Add(100 * 365 * 24 * time.Hour) }, want: 2},
		"a far past is believed":       {config: map[string]string{"retention.ms": num(hour * 24)}, dated: func(time.Time, int) time.Time { return time.UnixMilli(5) }, want: 4},
		"no date is that of the write": {config: map[string]string{"retention.ms": num(hour * 4)}, dated: func(time.Time, int) time.Time { return time.UnixMilli(-1) }, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			o := options(memfs.New())
			o.Now, o.Defaults.SegmentBytes = c.now, 2200
			r := start(t, o)
			topic := uuid.New()
			require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 2, test.config, 1)}))
			p := r.partition(topic, 0)
			hourly(t, c, p, func(hour int) time.Time {
				if test.dated != nil {
					return test.dated(c.now(), hour)
				}
				return c.now()
			})
			before, err := p.Describe(t.Context())
			require.NoError(t, err)
			require.Equal(t, 3, before.Segments)

			mustPass(t, r, Retention)
			require.Equal(t, test.want, startOffset(t, p))
			after, err := p.Describe(t.Context())
			require.NoError(t, err)
			require.Equal(t, 3-int(test.want/2), after.Segments)
			require.Equal(t, test.want/2, after.Upkeep.SegmentsDeleted)
			require.Equal(t, before.Bytes-after.Bytes, after.Upkeep.BytesReclaimed)

			mustPass(t, r, Retention)
			require.Equal(t, test.want, startOffset(t, p), "a second pass finds nothing more")

			require.NoError(t, r.stop())
			again := start(t, o)
			require.Equal(t, test.want, startOffset(t, again.partition(topic, 0)))
			require.Len(t, values(t, again.partition(topic, 0)), 6-int(test.want))
		})
	}
}

func TestRetentionChangesCountFromTheNextPass(t *testing.T) {
	c := newClock()
	o := options(memfs.New())
	o.Now, o.Defaults.SegmentBytes = c.now, 2200
	r := start(t, o)
	topic := uuid.New()
	place := func(version int64, config map[string]string) {
		require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, config, version)}))
	}
	place(1, map[string]string{"cleanup.policy": "compact"})
	p := r.partition(topic, 0)
	hourly(t, c, p, func(int) time.Time { return c.now() })
	mustPass(t, r, Retention)
	require.Equal(t, int64(0), startOffset(t, p))
	place(2, map[string]string{"cleanup.policy": "delete"})
	mustPass(t, r, Retention)
	require.Equal(t, int64(0), startOffset(t, p))
	place(3, map[string]string{"cleanup.policy": "delete", "retention.ms": num(4 * time.Hour.Milliseconds())})
	require.Equal(t, int64(0), startOffset(t, p))
	mustPass(t, r, Retention)
	require.Equal(t, int64(2), startOffset(t, p))
}

// The files of dropped segments stay for the grace, and a reader that is in one
// goes on; the next start does not wait for it.
func TestDeleteGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		o := options(disk)
		o.Defaults.SegmentBytes, o.Upkeep.DeleteGrace, o.IdleAfter = 2200, time.Minute, 1000*time.Hour
		r := start(t, o)
		topic := uuid.New()
		require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, map[string]string{"retention.ms": "1000"}, 1)}))
		p := r.partition(topic, 0)
		for range 6 {
			_, err := appendTo(p, datedBatch(t, time.Now()))
			require.NoError(t, err)
		}
		folder := filepath.Join(dir, "topics", topic.String(), "0")
		require.Len(t, logFiles(t, disk, folder), 3)

		<-time.After(time.Minute)
		mustPass(t, r, Retention)
		require.Equal(t, int64(4), startOffset(t, p))
		require.Len(t, logFiles(t, disk, folder), 3, "within the grace")
		require.Len(t, values(t, p), 2, "nobody finds them any more")
		<-time.After(59 * time.Second)
		require.Len(t, logFiles(t, disk, folder), 3)
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.Len(t, logFiles(t, disk, folder), 1)

		for range 6 {
			_, err := appendTo(p, datedBatch(t, time.Now()))
			require.NoError(t, err)
		}
		<-time.After(time.Minute)
		mustPass(t, r, Retention)
		require.Len(t, logFiles(t, disk, folder), 4)
		require.NoError(t, r.stop())
		r = start(t, o)
		require.Len(t, values(t, r.partition(topic, 0)), 2)
		require.Len(t, logFiles(t, disk, folder), 1)
		require.NoError(t, r.stop())
	})
}

func logFiles(t *testing.T, fsys vfs.FS, folder string) (names []string) {
	t.Helper()
	all, err := fsys.List(folder)
	require.NoError(t, err)
	for _, name := range all {
		if strings.HasSuffix(name, ".log") {
			names = append(names, name)
		}
	}
	return names
}

func TestOneBadPartitionDoesNotStopThePass(t *testing.T) {
	c := newClock()
	o := options(memfs.New())
	o.Now, o.Defaults.SegmentBytes = c.now, 2200
	r := start(t, o)
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 8, map[string]string{"retention.ms": num(4 * time.Hour.Milliseconds())}, 1)}))
	for i := range int32(8) {
		p := r.partition(topic, i)
		for range 6 {
			_, err := appendTo(p, datedBatch(t, c.now()))
			require.NoError(t, err)
		}
	}
	c.advance(6 * time.Hour)
	bad := r.partition(topic, 3)
	bad.failure.Store(&failure{err: ErrDamaged})

	failures, err := r.RunPass(t.Context(), Retention, true)
	require.NoError(t, err)
	require.Len(t, failures, 1)
	require.Equal(t, bad.key, failures[0].Key)
	require.ErrorIs(t, failures[0].Err, ErrDamaged)
	for i := range int32(8) {
		if i != 3 {
			require.Equal(t, int64(4), startOffset(t, r.partition(topic, i)))
		}
	}
}

// Passes run by themselves, and end with the node.
func TestPassesRunByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(memfs.New())
		o.Defaults.SegmentBytes = 2200
		o.Upkeep.Intervals = map[Pass]time.Duration{Retention: time.Minute, Compaction: time.Minute}
		r := start(t, o)
		topic := uuid.New()
		require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, map[string]string{"retention.ms": "1000"}, 1)}))
		p := r.partition(topic, 0)
		for range 6 {
			_, err := appendTo(p, datedBatch(t, time.Now()))
			require.NoError(t, err)
		}
		<-time.After(20 * time.Second)
		require.Equal(t, int64(0), startOffset(t, p))
		<-time.After(3 * time.Minute)
		require.Equal(t, int64(4), startOffset(t, p))
		require.NoError(t, r.stop())
		_, err := r.RunPass(t.Context(), Retention, true)
		require.ErrorIs(t, err, ErrStopping)
	})
}

func TestPassEndsWithItsCaller(t *testing.T) {
	r := start(t, options(memfs.New()))
	r.upkeep.turns[Retention] <- struct{}{}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller hung up")
	cancel(gone)
	_, err := r.RunPass(ctx, Retention, true)
	require.ErrorIs(t, err, gone)
	<-r.upkeep.turns[Retention]
}

// A log with nothing to do is not woken up.
func TestPassesLetIdlePartitionsSleep(t *testing.T) {
	o := options(memfs.New())
	o.Defaults.SegmentBytes = 2200
	r := start(t, o)
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	p := r.partition(topic, 0)
	for range 6 {
		_, err := appendTo(p, datedBatch(t, time.Now()))
		require.NoError(t, err)
	}
	r.awake.remove(p)
	touched := p.touched.Load()
	p.sleep()
	for pass := range passes {
		mustPass(t, r, pass)
	}
	require.Equal(t, touched, p.touched.Load())
	r.awake.mu.Lock()
	defer r.awake.mu.Unlock()
	require.Empty(t, r.awake.mu.set)
}

// BenchmarkPass is a pass over 10,000 partitions: unwritten, or with nothing to
// do.
func BenchmarkPass(b *testing.B) {
	for name, write := range map[string]bool{"unwritten": false, "idle": true} {
		b.Run(name, func(b *testing.B) {
			o := options(memfs.New())
			o.Defaults.SegmentBytes = 2200
			n, err := Open(o)
			require.NoError(b, err)
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan error, 1)
			go func() { done <- n.Run(ctx) }()
			topic := uuid.New()
			require.NoError(b, n.Place([]*persistv1.CatalogTopic{placement(topic, 10_000, map[string]string{"cleanup.policy": "compact,delete"}, 1)}))
			if write {
				for _, p := range n.Partitions() {
					for range 3 {
						_, err := appendTo(p, datedBatch(b, time.Now()))
						require.NoError(b, err)
					}
				}
			}
			for pass := range passes {
				_, err := n.RunPass(b.Context(), pass, true)
				require.NoError(b, err)
			}
			for b.Loop() {
				for pass := range passes {
					_, err := n.RunPass(b.Context(), pass, false)
					require.NoError(b, err)
				}
			}
			cancel()
			require.NoError(b, <-done)
		})
	}
}
