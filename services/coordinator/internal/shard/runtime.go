package shard

import (
	"context"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config bounds a runtime.
type Config struct {
	// MaxQueued limits the requests that wait for one shard.
	MaxQueued int
	// MaxBatchBytes limits the records of one write; a batch of several writes
	// is less than twice as large.
	MaxBatchBytes int
	// AppendTimeout limits one append; after it the outcome is unknown.
	AppendTimeout time.Duration
	// LoadTimeout limits how long loading goes on without progress.
	LoadTimeout time.Duration
}

// Runtime runs the shards that this coordinator owns.
type Runtime[M Machine] struct {
	cfg     Config
	log     Log
	fresh   func(shard int32) M
	logger  *slog.Logger
	metrics *metrics
	// lost tells the keeper that a tenure ended from within.
	lost chan struct{}

	// appends is what appends run under: longer than tenures, and than Run by
	// the time that an append may take.
	appends    context.Context
	endAppends context.CancelFunc
	// work has one goroutine for each shard that has something to do.
	work sync.WaitGroup

	mu struct {
		sync.Mutex
		// shards are all shards there are, once that is known.
		shards []*shard[M]
		// loads counts loads that succeeded.
		loads uint64
		// loaded is closed, and replaced, with each.
		loaded chan struct{}
	}
}

// New returns a runtime that owns nothing. fresh makes the empty state of a
// shard.
func New[M Machine](cfg Config, log Log, fresh func(shard int32) M, logger *slog.Logger, reg prometheus.Registerer) *Runtime[M] {
	r := &Runtime[M]{cfg: cfg, log: log, fresh: fresh, logger: logger, lost: make(chan struct{}, 1)}
	r.appends, r.endAppends = context.WithCancel(context.Background())
	r.mu.loaded = make(chan struct{})
	r.metrics = newMetrics(reg, func() float64 { return float64(len(r.Owned())) })
	return r
}

// Of returns the shard of a group or another name; ok is false before it is
// known how many there are. It is FNV-1a, 32 bits, modulo the number of shards,
// and says in which log the name's records are: it must not change.
func (r *Runtime[M]) Of(name string) (shard int32, ok bool) {
	r.mu.Lock()
	n := len(r.mu.shards)
	r.mu.Unlock()
	if n == 0 {
		return 0, false
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return int32(h.Sum32() % uint32(n)), true
}

// Write evaluates op on a shard's state and returns when the records that it
// returns are committed; then op's own error, if any, is the answer. op may see
// what other writes have not committed yet; if that fails, so does this.
//
// After ErrUnknownOutcome, and when ctx ends, the records may or may not be
// written. op is not running any more when Write returns.
func (r *Runtime[M]) Write(ctx context.Context, shard int32, op func(M) ([]Record, error)) error {
	o := newOp[M]()
	o.write = op
	return r.do(ctx, shard, o)
}

// Read evaluates op on a shard's committed state, with all in it that was
// answered before the call. op must not keep references to the state.
func (r *Runtime[M]) Read(ctx context.Context, shard int32, op func(M) error) error {
	o := newOp[M]()
	o.read = op
	return r.do(ctx, shard, o)
}

func (r *Runtime[M]) do(ctx context.Context, shard int32, o *op[M]) error {
	s := r.shard(shard)
	if s == nil {
		return ErrNotCoordinator
	}
	if err := s.enqueue(o); err != nil {
		return err
	}
	return o.wait(ctx)
}

// Count returns how many shards there are, 0 before it is known.
func (r *Runtime[M]) Count() int { return len(r.all()) }

// Owned returns the shards that this coordinator owns.
func (r *Runtime[M]) Owned() []int32 {
	var owned []int32
	for _, s := range r.all() {
		if s.current() != nil {
			owned = append(owned, s.number)
		}
	}
	return owned
}

// Loaded returns the shards whose state is in memory: those that somebody used.
func (r *Runtime[M]) Loaded() []int32 {
	var loaded []int32
	for _, s := range r.all() {
		if s.isLoaded() {
			loaded = append(loaded, s.number)
		}
	}
	return loaded
}

// Loads counts the loads of shards.
func (r *Runtime[M]) Loads() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.loads
}

// LoadsChanged is closed with the next load of a shard. Take it before Loads.
func (r *Runtime[M]) LoadsChanged() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.loaded
}

func (r *Runtime[M]) noteLoad() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.loads++
	close(r.mu.loaded)
	r.mu.loaded = make(chan struct{})
}

func (r *Runtime[M]) all() []*shard[M] {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.shards
}

func (r *Runtime[M]) shard(number int32) *shard[M] {
	all := r.all()
	if number < 0 || int(number) >= len(all) {
		return nil
	}
	return all[number]
}

// begin makes known how many shards there are.
func (r *Runtime[M]) begin(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.shards != nil {
		return
	}
	r.mu.shards = make([]*shard[M], n)
	for i := range r.mu.shards {
		r.mu.shards[i] = &shard[M]{runtime: r, number: int32(i)}
	}
}

// gaveUp tells the keeper of a tenure that ended from within.
func (r *Runtime[M]) gaveUp(t *tenure) {
	r.metrics.givenUp.Inc()
	r.logger.Info("shard given up", "shard", t.shard, "epoch", t.epoch)
	select {
	case r.lost <- struct{}{}:
	default:
	}
}

// stop ends all tenures and waits for what is under way.
func (r *Runtime[M]) stop() {
	for _, s := range r.all() {
		if t := s.current(); t != nil {
			s.disown(t)
		}
	}
	late := time.AfterFunc(r.cfg.AppendTimeout, r.endAppends)
	defer late.Stop()
	r.work.Wait()
	r.endAppends()
}
