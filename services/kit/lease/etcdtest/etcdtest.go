// Package etcdtest runs a real etcd of one member inside a test.
package etcdtest

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
)

// Start runs an etcd until the test ends and returns a client of it. It listens
// on no network: clients call it in process, and the peer listener that etcd
// insists on is a unix socket.
func Start(t testing.TB) *clientv3.Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "etcd") // t.TempDir's names are too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })

	cfg := embed.NewConfig()
	cfg.Name = "test"
	cfg.Dir = filepath.Join(dir, "data")
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = nil, nil
	peer := url.URL{Scheme: "unix", Path: filepath.Join(dir, "peer")}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.Name + "=" + peer.String()
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.UnsafeNoFsync = true // a test's etcd outlives no crash
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())

	server, err := embed.StartEtcd(cfg)
	require.NoError(t, err)
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(time.Minute):
		server.Close()
		t.Fatal("etcd does not get ready")
	}
	client := v3client.New(server.Server)
	t.Cleanup(func() {
		_ = client.Close()
		server.Close()
	})
	return client
}
