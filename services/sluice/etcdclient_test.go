package sluice_test

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/sluiceio/sluice/services/kit/obs"
	"github.com/sluiceio/sluice/services/sluice"
)

// An etcd that wants certificates and a password is one like any other.
func TestEtcdWithCertificatesAndAPassword(t *testing.T) {
	authorities := newAuthority(t)
	cert, key := authorities.pair("etcd")
	address := startEtcdWith(t, func(cfg *embed.Config) {
		cfg.ListenClientUrls[0].Scheme, cfg.AdvertiseClientUrls[0].Scheme = "https", "https"
		// Each watch and each renewal of a lease brings the password along. What it costs
		// to check it with care is no part of this, and under the race detector it may be
		// more than a lease lasts. 4 is the least that bcrypt takes.
		cfg.BcryptCost = 4
		cfg.ClientTLSInfo = transport.TLSInfo{CertFile: cert, KeyFile: key, TrustedCAFile: authorities.file, ClientCertAuth: true}
	})
	info := transport.TLSInfo{CertFile: cert, KeyFile: key, TrustedCAFile: authorities.file}
	config, err := info.ClientConfig()
	require.NoError(t, err)
	admin, err := clientv3.New(clientv3.Config{Endpoints: address, TLS: config})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, admin.Close()) })
	enableAuth(t, admin)

	cfg := configure(t, t.TempDir(), address, sluice.AllRoles()...)
	cfg.Etcd.CA = authorities.file
	cfg.Etcd.Cert, cfg.Etcd.Key = authorities.pair("a")
	cfg.Etcd.Username, cfg.Etcd.PasswordFile = "root", filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(cfg.Etcd.PasswordFile, []byte("secret\n"), 0o600))
	n := startWith(t, cfg)
	n.createTopic(t, "orders", 1)
	written := n.produce(t, "orders", 5)
	require.Equal(t, written, n.consume(t, "orders", 1))
}

// A node with a password waits for its etcd, as one without does.
func TestANodeWithAPasswordWaitsForEtcd(t *testing.T) {
	// On a socket of its own: a port might be another's while etcd is away.
	folder, err := os.MkdirTemp("", "etcd") // t.TempDir's names are too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	address := url.URL{Scheme: "unix", Path: filepath.Join(folder, "client")}
	onSocket := func(cfg *embed.Config) {
		cfg.Dir = filepath.Join(folder, "data")
		cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{address}, []url.URL{address}
		cfg.BcryptCost = 4
	}
	etcd := runEtcd(t, onSocket)
	admin, err := clientv3.New(clientv3.Config{Endpoints: []string{address.String()}})
	require.NoError(t, err)
	enableAuth(t, admin)
	require.NoError(t, admin.Close())
	etcd.Close()

	cfg := configure(t, t.TempDir(), []string{address.String()}, sluice.AllRoles()...)
	cfg.Etcd.Username, cfg.Etcd.PasswordFile = "root", filepath.Join(folder, "password")
	require.NoError(t, os.WriteFile(cfg.Etcd.PasswordFile, []byte("secret\n"), 0o600))
	tried := make(chan struct{}, 1)
	made := make(chan error, 1)
	var node *sluice.Node
	go func() {
		var err error
		node, err = sluice.New(t.Context(), *cfg, sluice.Deps{Logger: slog.New(notices{slog.DiscardHandler, tried}), Registry: obs.NewRegistry()})
		made <- err
	}()
	<-tried
	t.Cleanup(runEtcd(t, onSocket).Close)
	require.NoError(t, <-made)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, node.Run(ctx, cancel))

	require.NoError(t, os.WriteFile(cfg.Etcd.PasswordFile, []byte("wrong\n"), 0o600))
	_, err = sluice.New(t.Context(), *cfg, deps())
	require.ErrorContains(t, err, "--etcd-endpoints")
}

// notices is a log that tells of the tries to reach etcd.
type notices struct {
	slog.Handler
	tried chan struct{}
}

func (n notices) Enabled(context.Context, slog.Level) bool { return true }

func (n notices) WithAttrs([]slog.Attr) slog.Handler { return n }

func (n notices) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "etcd does not answer") {
		select {
		case n.tried <- struct{}{}:
		default:
		}
	}
	return nil
}

// enableAuth has etcd ask for a password.
func enableAuth(t *testing.T, admin *clientv3.Client) {
	t.Helper()
	_, err := admin.UserAdd(t.Context(), "root", "secret")
	require.NoError(t, err)
	_, err = admin.UserGrantRole(t.Context(), "root", "root")
	require.NoError(t, err)
	_, err = admin.AuthEnable(t.Context())
	require.NoError(t, err)
}
