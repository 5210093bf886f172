package budget_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/sluiceio/sluice/services/gateway/internal/budget"
	"github.com/sluiceio/sluice/services/kit/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var errBusy = errors.New("busy")

func newBudget(patience time.Duration, relieve func()) *budget.Budget {
	return budget.New(budget.Config{
		Bytes: semaphore.NewWeighted(10), Whole: 10, Patience: patience, Relieve: relieve, Busy: errBusy,
	})
}

func TestHoldTakesAndGivesBack(t *testing.T) {
	b := newBudget(time.Millisecond, func() {})
	one, two := b.Hold(), b.Hold()
	require.NoError(t, one.Grow(t.Context(), 6))
	require.NoError(t, one.Grow(t.Context(), 3), "less is not given back")
	require.EqualValues(t, 6, one.Taken())
	require.True(t, two.TryGrow(4))
	require.False(t, two.TryGrow(5))
	require.ErrorIs(t, two.Grow(t.Context(), 5), errBusy)
	require.EqualValues(t, 4, two.Taken(), "what was taken stays")
	require.EqualValues(t, 10, b.Taken())
	one.Shrink(1)
	require.NoError(t, two.Grow(t.Context(), 9))
	one.Release()
	two.Release()
	two.Release()
	require.Zero(t, b.Taken())
	// What takes more than all that there is takes that.
	require.NoError(t, one.Grow(t.Context(), 1000))
	require.EqualValues(t, 10, one.Taken())
	one.Release()
	var none budget.Hold
	none.Release()
}

// Who waits has the budget relieved, and takes what that gives back.
func TestWhoWaitsIsRelieved(t *testing.T) {
	var holding budget.Hold
	var relieved atomic.Int64
	b := newBudget(time.Minute, func() {
		if relieved.Add(1) == 1 {
			holding.Release()
		}
	})
	holding = b.Hold()
	require.NoError(t, holding.Grow(t.Context(), 10))
	waiting := b.Hold()
	require.NoError(t, waiting.Grow(t.Context(), 10))
	require.Positive(t, relieved.Load())
	waiting.Release()
}

func TestTheEndOfARequestEndsItsWait(t *testing.T) {
	b := newBudget(time.Minute, func() {})
	one, two := b.Hold(), b.Hold()
	require.True(t, one.TryGrow(10))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, two.Grow(ctx, 1), errBusy)
	one.Release()
}

func TestStall(t *testing.T) {
	var s budget.Stall
	require.Zero(t, s.Lasting())
	s.Begin()
	require.Positive(t, s.Lasting())
	s.End()
	require.Zero(t, s.Lasting())
}
