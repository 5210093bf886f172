package invariant_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/invariant"
)

func TestCheckfPanicsInTestBuildsOnly(t *testing.T) {
	require.NotPanics(t, func() { invariant.Checkf(true, "holds") })
	broken := func() { invariant.Checkf(false, "offset %d <= %d", 7, 3) }
	if invariant.Enabled {
		require.PanicsWithValue(t, "invariant: offset 7 <= 3", broken)
	} else {
		require.NotPanics(t, broken)
	}
}

func TestBugfIsAnErrorInProduction(t *testing.T) {
	if invariant.Enabled {
		require.Panics(t, func() { _ = invariant.Bugf("impossible: %w", io.EOF) })
		return
	}
	err := invariant.Bugf("impossible: %w", io.EOF)
	require.ErrorIs(t, err, io.EOF)
	require.EqualError(t, err, "bug: impossible: EOF")
}

func TestScribbleLeavesProductionAlone(t *testing.T) {
	b := []byte("data")
	invariant.Scribble(b)
	require.Equal(t, invariant.Enabled, string(b) != "data")
}
