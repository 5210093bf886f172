package meta

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefaultsAreValuesInTheirOwnSpelling(t *testing.T) {
	for name, def := range configs {
		got, err := def.check(def.def)
		require.NoError(t, err, name)
		require.Equal(t, def.def, got, name)
	}
	require.NoError(t, checkTogether(nil))
}
