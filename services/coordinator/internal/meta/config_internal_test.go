package meta

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Defaults contradict neither one another nor a policy that is set.
func TestDefaultsGoTogether(t *testing.T) {
	for _, policy := range []string{"delete", "compact", "compact,delete"} {
		require.NoError(t, checkTogether(map[string]string{"cleanup.policy": policy}), policy)
	}
	require.NoError(t, checkTogether(nil))
}
