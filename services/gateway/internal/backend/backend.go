// Package backend is what all doors stand on: it routes, checks, batches and
// authorizes. A door translates its protocol to calls of this package and holds
// no rule of its own.
//
// A caller is passed to each method and is checked there, before anything else:
// who is not granted something does not learn whether it exists.
package backend

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluiceio/sluice/services/gateway/internal/picture"
	"github.com/sluiceio/sluice/services/gateway/internal/topicconf"
	"github.com/sluiceio/sluice/services/kit/life"
)

// Limits bound what one request may ask for.
type Limits struct {
	// RecordBytes is the largest key and value together.
	RecordBytes int
	// ProduceRecords is how many records one request may write.
	ProduceRecords int
	// FetchRecords is how many records one request may read.
	FetchRecords int
	// FetchBytes is how many bytes of keys and values one request may read, but
	// for a first record that is larger.
	FetchBytes int
	// Patience is how long a request waits for a leader, a coordinator or the
	// picture.
	Patience time.Duration
	// Timeout is how long a request may take, beside what it waits for records.
	Timeout time.Duration
}

// MaxWait is the longest that a read waits for a first record.
const MaxWait = 30 * time.Second

// Deps are what a backend stands on.
type Deps struct {
	Logger *slog.Logger
	Dialer Dialer
	Finder Finder
	// Topics are what configs have that a topic does not set.
	Topics topicconf.Defaults
	// Authenticated is that callers need a key.
	Authenticated bool
	// Now is the clock of the records' timestamps.
	Now func() time.Time
}

// Backend serves the doors of one gateway.
type Backend struct {
	limits       Limits
	logger       *slog.Logger
	dialer       Dialer
	topics       topicconf.Defaults
	now          func() time.Time
	coordinators *pool
	registry     *pool
	watcher      *picture.Watcher
	absent       absentees
	traffic      traffic
	callers      introductions
	quotas       quotas

	// Ends with Drain.
	draining context.Context
	drain    context.CancelFunc
}

// New returns a backend. Run it before it is asked anything.
func New(limits Limits, deps Deps) *Backend {
	b := &Backend{
		limits:       limits,
		logger:       deps.Logger,
		dialer:       deps.Dialer,
		topics:       deps.Topics,
		now:          deps.Now,
		coordinators: &pool{role: RoleCoordinator, finder: deps.Finder, dialer: deps.Dialer, patience: limits.Patience},
		registry:     &pool{role: RoleRegistry, finder: deps.Finder, dialer: deps.Dialer, patience: limits.Patience},
	}
	b.callers.logger = deps.Logger
	b.callers.registry, b.callers.required, b.callers.revoked = b.registry, deps.Authenticated, b.quotas.forget
	b.quotas.registry = b.registry
	b.draining, b.drain = context.WithCancel(context.Background())
	streams := &pool{role: RoleCoordinator, finder: deps.Finder, dialer: deps.Dialer}
	b.watcher = picture.NewWatcher(streams.watch, deps.Logger)
	return b
}

// Run follows the cluster until ctx ends.
func (b *Backend) Run(ctx context.Context) error {
	parts := life.NewGroup(ctx)
	parts.Go("metadata", b.watcher.Run)
	if b.callers.required {
		parts.Go("keys", b.callers.follow)
	}
	return parts.Wait()
}

// Complete returns a channel that is closed once there is a picture of the
// cluster; before that no topic exists.
func (b *Backend) Complete() <-chan struct{} { return b.watcher.Complete() }

// Drain ends reads that wait for records, now and from now on: they answer that
// there are none. Whoever stops calls it, so as not to wait for them.
func (b *Backend) Drain() { b.drain() }

// settle waits until the picture has reached a revision, so that a caller finds
// what its own change made. The change stands either way, so running out of
// patience is no error.
func (b *Backend) settle(ctx context.Context, revision int64) {
	ctx, cancel := context.WithTimeout(ctx, b.limits.Patience)
	defer cancel()
	if _, err := b.watcher.WaitFor(ctx, revision); err != nil {
		b.logger.WarnContext(ctx, "the picture lags behind a change", "error", err)
	}
}
