package embedetcd

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEtcdKeepsWhatItWasTold(t *testing.T) {
	// Too long for a unix socket.
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
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

func TestLog(t *testing.T) {
	var out bytes.Buffer
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
	logger := zap.New(newCore(handler)).With(zap.Int("n", 1))
	logger.Info("nothing to see")
	logger.Warn("slow", zap.Duration("took", 2), zap.Error(errors.New("broken")))
	logger.DPanic("worse")
	require.Equal(t,
		"level=WARN msg=slow component=etcd n=1 took=2ns error=broken\n"+
			"level=ERROR msg=worse component=etcd n=1\n", out.String())
}

func start(t *testing.T, dir string) *Etcd {
	t.Helper()
	etcd, err := Start(t.Context(), dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, etcd.Close()) })
	return etcd
}
