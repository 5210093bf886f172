package life

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/sluiceio/sluice/services/kit/confine"
)

// Group runs named members side by side. The first that fails ends the context
// of all.
type Group struct {
	group  *errgroup.Group
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// NewGroup returns an empty group whose members stop when ctx ends.
func NewGroup(ctx context.Context) *Group {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{group: &errgroup.Group{}, ctx: ctx, cancel: cancel}
}

// Go starts a member. It runs until it is done (nil), fails, or its context ends;
// after that its context's error counts as a clean stop. A panic in it is its
// failure. A member's failure is reported under its name, and the other members
// find it with context.Cause.
func (g *Group) Go(name string, member func(ctx context.Context) error) {
	g.group.Go(func() error {
		err := confine.Catch(func() error { return member(g.ctx) })
		if err == nil || g.ctx.Err() != nil && errors.Is(err, g.ctx.Err()) {
			return nil
		}
		err = fmt.Errorf("%s: %w", name, err)
		g.cancel(err)
		return err
	})
}

// Stop ends the context of all members. It does not wait for them.
func (g *Group) Stop() {
	g.cancel(nil)
}

// Wait returns when every member has ended, with the first failure.
func (g *Group) Wait() error {
	defer g.cancel(nil)
	return g.group.Wait()
}
