package shard

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// registers is a machine: a number by name.
type registers map[string]int64

func (m registers) Apply(r Record) func() {
	name := r.Key.GetGroupOffset().Group
	before, had := m[name]
	if r.Value == nil {
		delete(m, name)
	} else {
		m[name] = r.Value.GetGroupOffset().Offset
	}
	return func() {
		if had {
			m[name] = before
		} else {
			delete(m, name)
		}
	}
}

func set(name string, n int64) Record {
	return Record{
		Key: &persistv1.ShardKey{Kind: &persistv1.ShardKey_GroupOffset{GroupOffset: &persistv1.GroupOffsetKey{Group: name}}},
		Value: &persistv1.ShardValue{Kind: &persistv1.ShardValue_GroupOffset{
			GroupOffset: &persistv1.GroupOffset{Offset: n},
		}},
	}
}

// fakeGrant is a lease that lives until it is told otherwise.
type fakeGrant struct{ dead atomic.Bool }

func (g *fakeGrant) Alive() bool { return !g.dead.Load() }

func newTenure(shard int32, epoch int64) (*tenure, *fakeGrant) {
	g := &fakeGrant{}
	t := &tenure{shard: shard, epoch: epoch, grant: g}
	t.ctx, t.end = context.WithCancel(context.Background())
	return t, g
}

// scriptedLog is a Log in memory of one shard, whose next answers a test can
// hold back or replace.
type scriptedLog struct {
	mu      sync.Mutex
	records []Record
	fence   int64
	appends []int
	// errs are the answers of the next appends; nil is success.
	errs []error
	// fenceErrs and readErrs are those of the next fences and reads.
	fenceErrs, readErrs []error
	// gate, when set, is received from before each append.
	gate chan struct{}
	// reached receives before each append waits for the gate.
	reached chan struct{}
}

func (l *scriptedLog) Fence(_ context.Context, _ int32, epoch int64) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := pop(&l.fenceErrs); err != nil {
		return 0, err
	}
	if epoch < l.fence {
		return 0, errFenced
	}
	l.fence = epoch
	return int64(len(l.records)), nil
}

func (l *scriptedLog) Read(_ context.Context, _ int32, offset int64) ([]Record, int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := pop(&l.readErrs); err != nil {
		return nil, 0, err
	}
	if offset == int64(len(l.records)) {
		return nil, offset, nil
	}
	return l.records[offset : offset+1], offset + 1, nil
}

func (l *scriptedLog) Append(ctx context.Context, _ int32, epoch int64, records []Record) error {
	if l.gate != nil {
		l.reached <- struct{}{}
		select {
		case <-l.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := pop(&l.errs); err != nil {
		return err
	}
	if epoch < l.fence {
		return errFenced
	}
	l.records = append(l.records, records...)
	l.appends = append(l.appends, len(records))
	return nil
}

func pop(errs *[]error) error {
	if len(*errs) == 0 {
		return nil
	}
	err := (*errs)[0]
	*errs = (*errs)[1:]
	return err
}

func (l *scriptedLog) batches() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appends
}

// testConfig has no limit that a log which a test holds back runs into.
var testConfig = Config{MaxQueued: 100, MaxBatchBytes: 1 << 20, AppendTimeout: time.Minute, LoadTimeout: time.Minute}

func newRuntime(t *testing.T, cfg Config, log Log, shards int) *Runtime[registers] {
	t.Helper()
	return newMachine(t, cfg, log, shards, func(int32) registers { return registers{} })
}

func newMachine[M Machine](t *testing.T, cfg Config, log Log, shards int, fresh func(int32) M) *Runtime[M] {
	t.Helper()
	r := New(cfg, log, fresh, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	r.begin(shards)
	t.Cleanup(r.stop)
	return r
}

func (r *Runtime[M]) give(t *testing.T, shard int32, epoch int64) (*tenure, *fakeGrant) {
	t.Helper()
	tenure, g := newTenure(shard, epoch)
	r.shard(shard).own(tenure)
	return tenure, g
}

func write(t *testing.T, r *Runtime[registers], records ...Record) error {
	t.Helper()
	return r.Write(t.Context(), 0, func(registers) ([]Record, error) { return records, nil })
}

func read(t *testing.T, r *Runtime[registers], name string) (n int64, err error) {
	t.Helper()
	err = r.Read(t.Context(), 0, func(m registers) error {
		n = m[name]
		return nil
	})
	return n, err
}

func requireRegister(t *testing.T, r *Runtime[registers], name string, want int64) {
	t.Helper()
	got, err := read(t, r, name)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func eventually(t *testing.T, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, time.Minute, time.Millisecond)
}

func (s *shard[M]) queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.queue)
}
