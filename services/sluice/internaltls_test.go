package sluice_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator"
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
