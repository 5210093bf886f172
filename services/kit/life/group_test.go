package life_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/life"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestFirstFailureStopsTheRest(t *testing.T) {
	errDisk := errors.New("disk full")
	group := life.NewGroup(t.Context())
	cause := make(chan error, 1)
	group.Go("server", func(ctx context.Context) error {
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	})
	group.Go("log", func(context.Context) error { return errDisk })
	err := group.Wait()
	require.ErrorIs(t, err, errDisk)
	require.EqualError(t, err, "log: disk full")
	require.ErrorIs(t, <-cause, errDisk)
}

func TestEndOfContextIsACleanStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	group := life.NewGroup(ctx)
	group.Go("a", untilDone)
	group.Go("b", untilDone)
	cancel()
	require.NoError(t, group.Wait())
}

func TestStopEndsAllMembers(t *testing.T) {
	group := life.NewGroup(t.Context())
	group.Go("a", untilDone)
	group.Stop()
	require.NoError(t, group.Wait())
}

func TestFailureWhileStoppingIsReported(t *testing.T) {
	group := life.NewGroup(t.Context())
	errFlush := errors.New("flush failed")
	group.Go("log", func(ctx context.Context) error {
		<-ctx.Done()
		return errFlush
	})
	group.Stop()
	require.ErrorIs(t, group.Wait(), errFlush)
}

func TestAMemberThatIsDoneStopsNobody(t *testing.T) {
	group := life.NewGroup(t.Context())
	done := make(chan struct{})
	group.Go("once", func(context.Context) error { close(done); return nil })
	group.Go("after", func(ctx context.Context) error {
		<-done
		return ctx.Err()
	})
	require.NoError(t, group.Wait())
}

func TestForeignCancellationIsAFailure(t *testing.T) {
	group := life.NewGroup(t.Context())
	group.Go("call", func(context.Context) error { return context.Canceled })
	require.ErrorIs(t, group.Wait(), context.Canceled)
}

func TestAPanicIsAFailure(t *testing.T) {
	group := life.NewGroup(t.Context())
	group.Go("server", untilDone)
	group.Go("log", func(context.Context) error { panic("broken") })
	require.ErrorContains(t, group.Wait(), "log: panic: broken")
}
