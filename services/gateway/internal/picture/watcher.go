package picture

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/confine"
)

// Source opens the stream of changes at any coordinator. Each call may choose
// another.
type Source func(ctx context.Context) (coordinatorv1.MetadataService_WatchMetadataClient, error)

// Watcher keeps a picture current.
type Watcher struct {
	source  Source
	logger  *slog.Logger
	current atomic.Pointer[Picture]
	// Closed when the first snapshot has come.
	complete chan struct{}
}

// NewWatcher returns a watcher with an empty picture; Run fills it.
func NewWatcher(source Source, logger *slog.Logger) *Watcher {
	w := &Watcher{source: source, logger: logger}
	w.current.Store(empty())
	w.complete = w.Current().superseded
	return w
}

// Current returns the newest picture.
func (w *Watcher) Current() *Picture { return w.current.Load() }

// Complete returns a channel that is closed once the picture is one of the
// cluster, not the empty one before the first contact.
func (w *Watcher) Complete() <-chan struct{} { return w.complete }

// WaitFor returns the first picture, from now on, that has reached a revision.
func (w *Watcher) WaitFor(ctx context.Context, revision int64) (*Picture, error) {
	for {
		p := w.Current()
		if p.Revision >= revision {
			return p, nil
		}
		select {
		case <-p.superseded:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for metadata revision %d, at %d: %w", revision, p.Revision, ctx.Err())
		}
	}
}

// Run follows the cluster until ctx ends. While no coordinator can be reached
// the last picture stands.
func (w *Watcher) Run(ctx context.Context) error {
	wait := backoff.New(backoff.Policy{Initial: 10 * time.Millisecond, Max: time.Second})
	for ctx.Err() == nil {
		err := confine.Attempt(ctx, w.logger, func() error { return w.follow(ctx, wait) })
		if ctx.Err() == nil {
			w.logger.WarnContext(ctx, "lost the coordinator's metadata", "error", err)
			_ = wait.Wait(ctx) // ends early with ctx
		}
	}
	return nil
}

// follow takes changes from one stream until it breaks.
func (w *Watcher) follow(ctx context.Context, wait *backoff.Backoff) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := w.source(ctx)
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		change, err := stream.Recv()
		if err != nil {
			return err
		}
		if first && !change.GetSnapshot() {
			return fmt.Errorf("the stream began without a snapshot")
		}
		wait.Reset()
		before := w.Current()
		w.current.Store(before.apply(change))
		close(before.superseded)
	}
}
