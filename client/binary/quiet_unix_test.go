//go:build unix

package binary_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/client/binary"
)

// A line is the newest connection that a client has made.
type line struct{ socket atomic.Pointer[net.TCPConn] }

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		l.socket.Store(conn.(*net.TCPConn))
	}
	return conn, err
}

// awaitEnd waits until the client could know that the server has hung up. The end of a
// connection is under way like all that is sent.
func (l *line) awaitEnd(t *testing.T) {
	t.Helper()
	raw, err := l.socket.Load().SyscallConn()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		waiting := false
		err := raw.Control(func(fd uintptr) {
			_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
			waiting = err == syscall.EAGAIN || err == syscall.EINTR
		})
		return err == nil && !waiting
	}, time.Minute, time.Millisecond)
}

// A server that went away while nothing was asked of it costs no produce.
func TestServerThatWentAwayBetweenRequests(t *testing.T) {
	config, pool := identity(t)
	for name, with := range map[string]struct {
		server *tls.Config
		client []binary.Option
	}{
		"plain": {},
		"TLS":   {config, []binary.Option{binary.WithTLS(&tls.Config{RootCAs: pool})}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, &server{tls: with.server, answer: func(_ int, id uint32, _ byte, _ []byte) []byte {
				return frame(id, 0x81, placed(0))
			}})
			var l line
			c, err := binary.New(s.address, append(with.client, binary.WithDialer(l.dial))...)
			require.NoError(t, err)
			defer func() { require.NoError(t, c.Close()) }()
			for n := range 5 {
				_, err := c.Produce(t.Context(), one)
				require.NoError(t, err)
				require.Equal(t, n+1, s.connections())
				_, err = c.Produce(t.Context(), one)
				require.NoError(t, err)
				require.Equal(t, n+1, s.connections(), "a connection that is fine is kept")
				s.hangUp()
				l.awaitEnd(t)
			}
		})
	}
}
