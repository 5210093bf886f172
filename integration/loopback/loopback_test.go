package loopback_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/loopback"
)

// An address that was given out comes again only after all others, and not while
// somebody listens there.
func TestFreeAddress(t *testing.T) {
	taken := loopback.FreeAddress(t)
	listener, err := net.Listen("tcp", taken)
	require.NoError(t, err)
	defer listener.Close()

	first := loopback.FreeAddress(t)
	given := map[string]bool{first: true}
	for next := loopback.FreeAddress(t); next != first; next = loopback.FreeAddress(t) {
		require.False(t, given[next], "%s twice", next)
		given[next] = true
	}
	require.Greater(t, len(given), 200)
	require.False(t, given[taken])
}
