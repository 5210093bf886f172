package life

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFirstSignalEndsTheContextAndTheSecondExits(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		exits := make(chan int, 1)
		ctx, stop := signalContext(t.Context(), func(code int) { exits <- code })

		require.NoError(t, syscall.Kill(os.Getpid(), sig))
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			require.Fail(t, "the signal did not end the context")
		}
		require.Empty(t, exits)

		require.NoError(t, syscall.Kill(os.Getpid(), sig))
		select {
		case code := <-exits:
			require.Equal(t, 130, code)
		case <-time.After(time.Minute):
			require.Fail(t, "the second signal did not exit")
		}
		stop()
		stop()
	}
}

func TestSignalAfterTheParentEndedIsStillTheFirst(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	cancel()
	exits := make(chan int, 1)
	ctx, stop := signalContext(parent, func(code int) { exits <- code })
	defer stop()
	require.Error(t, ctx.Err())
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	require.Never(t, func() bool { return len(exits) > 0 }, 50*time.Millisecond, 10*time.Millisecond)
}

func TestStopGivesSignalsBack(t *testing.T) {
	ctx, stop := SignalContext(t.Context())
	stop()
	require.ErrorIs(t, ctx.Err(), context.Canceled)
}
