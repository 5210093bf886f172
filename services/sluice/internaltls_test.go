package sluice_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator"
	"github.com/sluiceio/sluice/services/kit/obs"
	"github.com/sluiceio/sluice/services/sluice"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	a := &authority{t: t, key: key, file: filepath.Join(t.TempDir(), "ca.pem")}
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return a
}

// pair writes a certificate for both ends and its key.
func (a *authority) pair(name string) (certFile, keyFile string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(a.t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	dir := a.t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(a.t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(a.t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
	return certFile, keyFile
}

func (a *authority) nodes(name string) sluice.InternalTLS {
	cert, key := a.pair(name)
	return sluice.InternalTLS{Cert: cert, Key: key, CA: a.file}
}

// Nodes that show each other certificates are a cluster, and nobody else gets a
// word out of their internal addresses.
func TestNodesShowEachOtherCertificates(t *testing.T) {
	etcd := startEtcd(t)
	trusted, stranger := newAuthority(t), newAuthority(t)
	secured := func(name string) *running {
		cfg := configure(t, t.TempDir(), etcd, sluice.AllRoles()...)
		cfg.InternalTLS = trusted.nodes(name)
		return startWith(t, cfg)
	}
	a, b := secured("a"), secured("b")
	address := internalAddress(t, etcd, a)
	orders := a.createSpreadTopic(t, b, 4)
	written := b.produce(t, orders, 40)
	require.Equal(t, written, a.consume(t, orders, 4))

	authorities := x509.NewCertPool()
	authorities.AddCert(trusted.cert)
	strangers, err := tls.LoadX509KeyPair(stranger.pair("stranger"))
	require.NoError(t, err)
	for name, creds := range map[string]credentials.TransportCredentials{
		"in the clear":                     insecure.NewCredentials(),
		"without a certificate":            credentials.NewTLS(&tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS13}),
		"with another authority's":         credentials.NewTLS(&tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{strangers}}),
		"trusting whoever answers, no own": credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}),
	} {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
		require.NoError(t, err)
		_, err = healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
		require.Error(t, err, name)
		require.NoError(t, conn.Close())
	}
}

func TestInternalTLSIsAllOrNothing(t *testing.T) {
	whole := newAuthority(t).nodes("a")
	for says, mend := range map[string]func(*sluice.Config){
		"must be given together":            func(c *sluice.Config) { c.InternalTLS.CA = "" },
		"there are no other nodes":          func(c *sluice.Config) { c.Etcd.Endpoints, c.BindInternal = nil, "" },
		"is reached from other machines":    func(c *sluice.Config) { c.InternalTLS, c.BindInternal = sluice.InternalTLS{}, "10.0.0.1:9100" },
		"--etcd-tls-cert needs":             func(c *sluice.Config) { c.Etcd.Cert, c.Etcd.Key = "c", "k" },
		"--etcd-tls-cert and --etcd-tls-ke": func(c *sluice.Config) { c.Etcd.CA, c.Etcd.Cert = "a", "c" },
		"--etcd-username and --etcd-passwo": func(c *sluice.Config) { c.Etcd.Username = "sluice" },
		"node's own etcd has no address":    func(c *sluice.Config) { c.Etcd.Endpoints, c.Etcd.CA, c.BindInternal = nil, "a", "" },
	} {
		cfg := configure(t, t.TempDir(), []string{"127.0.0.1:1"}, sluice.AllRoles()...)
		cfg.InternalTLS = whole
		mend(cfg)
		require.ErrorContains(t, cfg.Validate(), says)
	}
	cfg := configure(t, t.TempDir(), []string{"127.0.0.1:1"}, sluice.AllRoles()...)
	cfg.InternalTLS, cfg.BindInternal = whole, "10.0.0.1:9100"
	require.NoError(t, cfg.Validate(), "certificates are what another machine needs")
}

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

// internalAddress is where other nodes reach a node, as its row says.
func internalAddress(t *testing.T, etcd []string, n *running) string {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: etcd})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	got, err := client.Get(t.Context(), coordinator.NodeKey(n.node.ID()))
	require.NoError(t, err)
	require.Len(t, got.Kvs, 1)
	row := &persistv1.NodeRow{}
	require.NoError(t, proto.Unmarshal(got.Kvs[0].Value, row))
	require.NotEmpty(t, row.GetAddress())
	return row.GetAddress()
}
