package rpc_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	testv1 "google.golang.org/grpc/interop/grpc_testing"

	"log/slog"

	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/rpc"
)

func TestOneConnectionForEachAddress(t *testing.T) {
	d := dialer(t, rpc.TCPOptions{})
	a, err := d.Conn(t.Context(), "n1", "127.0.0.1:1")
	require.NoError(t, err)
	again, err := d.Conn(t.Context(), "n1", "127.0.0.1:1")
	require.NoError(t, err)
	other, err := d.Conn(t.Context(), "n2", "127.0.0.1:2")
	require.NoError(t, err)
	require.Same(t, a, again)
	require.NotSame(t, a, other)

	_, err = d.Conn(t.Context(), "n3", "")
	require.Equal(t, "NO_ADDRESS", errs.Reason(err))
}

func TestNobodyThereIsUnavailable(t *testing.T) {
	d := dialer(t, rpc.TCPOptions{DialContext: func(context.Context, string) (net.Conn, error) {
		return nil, net.ErrClosed
	}})
	conn, err := d.Conn(t.Context(), "n1", "127.0.0.1:1")
	require.NoError(t, err)
	_, err = testv1.NewTestServiceClient(conn).UnaryCall(t.Context(), &testv1.SimpleRequest{})
	require.Equal(t, errs.Unavailable, errs.KindOf(err))
}

func TestClosedDialerGivesNothing(t *testing.T) {
	d := rpc.NewTCP(rpc.TCPOptions{})
	conn, err := d.Conn(t.Context(), "n1", "127.0.0.1:1")
	require.NoError(t, err)
	require.NoError(t, d.Close())
	require.NoError(t, d.Close())
	_, err = testv1.NewTestServiceClient(conn).UnaryCall(t.Context(), &testv1.SimpleRequest{})
	require.Equal(t, errs.Canceled, errs.KindOf(err))
	_, err = d.Conn(t.Context(), "n1", "127.0.0.1:1")
	require.Equal(t, "STOPPING", errs.Reason(err))
}

func TestLocalFirst(t *testing.T) {
	local := rpc.NewLocal(rpc.Options{Logger: slog.New(slog.DiscardHandler)})
	defer local.Stop()
	d := rpc.LocalFirst("n1", local, dialer(t, rpc.TCPOptions{}))
	conn, err := d.Conn(t.Context(), "n1", "127.0.0.1:1")
	require.NoError(t, err)
	require.Same(t, local, conn)
	conn, err = d.Conn(t.Context(), "n2", "127.0.0.1:1")
	require.NoError(t, err)
	require.NotSame(t, local, conn)
}
