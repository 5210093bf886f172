package embedetcd

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/leaks"
)

// startOnly has the test binary start etcd in the folder that it names, tell what
// came of it and end.
const startOnly = "EMBEDETCD_START_ONLY"

func TestMain(m *testing.M) {
	if dir := os.Getenv(startOnly); dir != "" {
		_, err := Start(context.Background(), dir, slog.New(slog.DiscardHandler))
		fmt.Fprint(os.Stdout, err)
		os.Exit(0)
	}
	leaks.Main(m)
}

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

// etcd itself would take the process along. It leaves goroutines behind, so it has
// a process of its own.
func TestStartRefusesDamagedFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	require.NoError(t, start(t, dir).Close())
	damaged := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && (filepath.Ext(path) == ".wal" || entry.Name() == "db") {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.Write(bytes.Repeat([]byte{0xa5}, 2000))
			require.NoError(t, err)
			require.NoError(t, f.Close())
			damaged++
		}
		return err
	}))
	require.GreaterOrEqual(t, damaged, 2)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), startOnly+"="+dir)
	out, err := child.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "start etcd: the files in "+dir+" are damaged")
}

func start(t *testing.T, dir string) *Etcd {
	t.Helper()
	etcd, err := Start(t.Context(), dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, etcd.Close()) })
	return etcd
}
