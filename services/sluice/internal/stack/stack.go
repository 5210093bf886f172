// Package stack runs the parts of a process, each of which uses those below it.
//
// Parts start from the bottom and stop from the top, one after the other: a
// door closes before the service behind it, and the service before the etcd
// that it writes to. A part that ends by itself takes the others down with it,
// in the same order.
package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluiceio/sluice/services/kit/confine"
)

// Part is one part of a process.
type Part struct {
	Name string
	// Run works until ctx ends and returns when all it started has stopped.
	Run func(ctx context.Context) error
	// Ready returns nil once the part serves. Nil: it serves once it runs.
	Ready func() error
}

// readyInterval is how often a part that is not ready yet is asked again.
const readyInterval = 2 * time.Millisecond

// Run starts the parts, each when the one below is ready, calls ready when all
// are, and stops them when ctx ends or one of them does. It returns nil after a
// stop that was asked for and went well.
func Run(ctx context.Context, parts []Part, ready func(), logger *slog.Logger) error {
	ctx, fail := context.WithCancel(ctx)
	defer fail()
	var running []*runner
	var err error
	for _, part := range parts {
		r := start(ctx, part, fail)
		running = append(running, r)
		if err = r.awaitReady(ctx); err != nil {
			break
		}
		logger.Debug("part is ready", "part", part.Name)
	}
	if err == nil {
		ready()
		<-ctx.Done()
	}

	var errs []error
	for i := len(running) - 1; i >= 0; i-- {
		began := time.Now()
		if err := running[i].stop(); err != nil {
			errs = append(errs, err)
		}
		logger.Debug("part has stopped", "part", running[i].part.Name, "took", time.Since(began))
	}
	return errors.Join(errs...)
}

// runner is a part that was started.
type runner struct {
	part   Part
	cancel context.CancelFunc
	// Closed when the part has ended; err then says how.
	ended chan struct{}
	err   error
}

// start runs a part under a context of its own, which ends only when its turn
// to stop has come. fail is called when it ends before that.
func start(ctx context.Context, part Part, fail func()) *runner {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &runner{part: part, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		err := confine.Catch(func() error { return part.Run(own) })
		switch {
		case own.Err() == nil && err == nil:
			r.err = fmt.Errorf("%s ended by itself", part.Name)
		case err != nil && !(own.Err() != nil && errors.Is(err, context.Canceled)):
			r.err = fmt.Errorf("%s: %w", part.Name, err)
		}
		fail()
	}()
	return r
}

// awaitReady waits until the part serves. It returns an error when the stack is
// to stop instead; the part's own error comes with its stop.
func (r *runner) awaitReady(ctx context.Context) error {
	if r.part.Ready == nil {
		return ctx.Err()
	}
	again := time.NewTicker(readyInterval)
	defer again.Stop()
	for r.part.Ready() != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
	return ctx.Err()
}

func (r *runner) stop() error {
	r.cancel()
	<-r.ended
	return r.err
}
