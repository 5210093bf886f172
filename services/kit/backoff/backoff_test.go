package backoff_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/backoff"
)

func TestWaitsGrowUpToTheLimit(t *testing.T) {
	const initial, limit = 10 * time.Millisecond, 200 * time.Millisecond
	b := backoff.New(backoff.Policy{Initial: initial, Max: limit})
	expected := initial
	for range 20 {
		wait := b.Next()
		require.GreaterOrEqual(t, wait, expected/2)
		require.LessOrEqual(t, wait, min(expected*3/2+1, limit))
		expected = min(2*expected, limit)
	}
	b.Reset()
	require.LessOrEqual(t, b.Next(), initial*3/2+1)
}

func TestWaitsDiffer(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 50 {
		seen[backoff.New(backoff.Policy{Initial: time.Second}).Next()] = true
	}
	require.Greater(t, len(seen), 10)
}

func TestInitialAboveTheLimitIsTheLimit(t *testing.T) {
	b := backoff.New(backoff.Policy{Initial: time.Hour, Max: time.Second})
	require.LessOrEqual(t, b.Next(), time.Second)
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backoff.New(backoff.Policy{Initial: time.Hour, Max: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		require.ErrorIs(t, b.Wait(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(begin))
		require.ErrorIs(t, b.Wait(ctx), context.DeadlineExceeded)

		begin = time.Now()
		require.NoError(t, b.Wait(t.Context()))
		require.GreaterOrEqual(t, time.Since(begin), 30*time.Minute)
	})
}
