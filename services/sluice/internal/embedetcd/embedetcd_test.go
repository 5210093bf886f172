package embedetcd

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEtcdKeepsWhatItWasTold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	etcd := start(t, dir)
	_, err := etcd.Client().Put(t.Context(), "key", "value")
	require.NoError(t, err)
	require.NoError(t, etcd.Close())

	etcd = start(t, dir)
	got, err := etcd.Client().Get(t.Context(), "key")
	require.NoError(t, err)
	require.Len(t, got.Kvs, 1)
	require.Equal(t, "value", string(got.Kvs[0].Value))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, etcd.Run(ctx))
	require.NoError(t, etcd.Close())
	require.NoError(t, etcd.Close(), "closing twice is closing once")
	require.Error(t, etcd.Run(t.Context()), "it no longer runs")
}

func TestStartRefusesADamagedFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	_, err := Start(t.Context(), dir, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "start etcd")
}

func start(t *testing.T, dir string) *Etcd {
	t.Helper()
	etcd, err := Start(t.Context(), dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, etcd.Close()) })
	return etcd
}
