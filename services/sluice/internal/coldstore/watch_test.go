package coldstore

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/blob/blobtest"
	"github.com/sluiceio/sluice/services/kit/blob/faultblob"
	"github.com/sluiceio/sluice/services/kit/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func TestWatchSaysWhenAStoreCanBeUsed(t *testing.T) {
	refused := errors.New("the bucket does not exist")
	for _, op := range []faultblob.Op{faultblob.Put, faultblob.ReadAt, faultblob.Delete} {
		synctest.Test(t, func(t *testing.T) {
			store := faultblob.New(blobtest.NewMemory(), faultblob.First(op, 3, faultblob.Fault{Err: refused}))
			cold := &Cold{probe: store, name: "the store"}
			var log bytes.Buffer
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- cold.Watch(ctx, "n1", slog.New(slog.NewTextHandler(&log, nil))) }()
			<-time.After(time.Hour)
			synctest.Wait()
			cancel()
			require.NoError(t, <-ended)
			require.Equal(t, 3, strings.Count(log.String(), "cold storage cannot be used"), log.String())
			require.Contains(t, log.String(), refused.Error())
			require.Equal(t, 1, strings.Count(log.String(), "cold storage can be used"), log.String())
			require.Contains(t, log.String(), `cold_storage="the store"`)
			require.Empty(t, blobtest.Names(t, store, ""), "nothing is left")
		})
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	for _, fault := range []faultblob.Fault{{Err: errors.New("away")}, {Wait: make(chan struct{})}} {
		var log bytes.Buffer
		cold := &Cold{probe: faultblob.New(blobtest.NewMemory(), faultblob.Always(fault)), name: "s"}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- cold.Watch(ctx, "n1", slog.New(slog.NewTextHandler(&log, nil))) }()
		cancel()
		require.NoError(t, <-ended)
	}
}

func TestWatchTellsOfAStoreThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		hook := faultblob.First(faultblob.Put, 1, faultblob.Fault{Wait: make(chan struct{})})
		cold := &Cold{probe: faultblob.New(blobtest.NewMemory(), hook), name: "s"}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, cold.Watch(ctx, "n1", slog.New(slog.NewTextHandler(&log, nil))))
		require.Contains(t, log.String(), context.DeadlineExceeded.Error())
		require.Contains(t, log.String(), "cold storage can be used")
	})
}

func TestFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "cold")
	cold, err := parse(t, nil, "--cold-storage", folder).Open()
	require.NoError(t, err)
	require.NoFileExists(t, folder, "nothing is reached for yet")
	require.NoError(t, cold.check(t.Context(), "n1"))
	require.DirExists(t, folder)
	require.NoError(t, cold.Close())

	require.NoError(t, os.RemoveAll(folder))
	require.NoError(t, os.WriteFile(folder, nil, 0o600))
	require.ErrorContains(t, cold.check(t.Context(), "n1"), folder)
}
