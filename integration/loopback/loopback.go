// Package loopback finds addresses for servers of tests.
package loopback

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// FreeAddress finds a loopback address that nobody listens on. Another process
// may take it before its user does; then that one says so.
func FreeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}
