package gateway_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/gateway"
)

// authority issues certificates for 127.0.0.1 into a folder.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// Pool trusts what it issues.
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir(), pool: x509.NewCertPool()}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) certFile() string { return filepath.Join(a.dir, "tls.crt") }
func (a *authority) keyFile() string  { return filepath.Join(a.dir, "tls.key") }

// issue writes a certificate with a serial number, in the place of the last one.
func (a *authority) issue(t *testing.T, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for file, block := range map[string]*pem.Block{
		a.certFile(): {Type: "CERTIFICATE", Bytes: der}, a.keyFile(): {Type: "PRIVATE KEY", Bytes: pkcs8},
	} {
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
}

func (a *authority) setting(c *gateway.Config) { c.TLSCert, c.TLSKey = a.certFile(), a.keyFile() }

func TestTLS(t *testing.T) {
	a := newAuthority(t)
	a.issue(t, 7)
	s := start(t, a.setting)
	address := s.service.HTTPAddr().String()

	// HTTP/1.1 and HTTP/2, with a certificate that is checked.
	for proto, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool}, ForceAttemptHTTP2: http2}
		client := &http.Client{Transport: transport}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/topics", nil)
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, proto, resp.Proto)
		require.NoError(t, resp.Body.Close())
		transport.CloseIdleConnections()
	}

	// Plain HTTP gets no answer to what it asked.
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	_, err = conn.Write([]byte("GET /topics HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, 400, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, conn.Close())

	list := func(creds credentials.TransportCredentials) error {
		conn, err := grpc.NewClient(s.service.GRPCAddr().String(), grpc.WithTransportCredentials(creds))
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		_, err = logv1.NewTopicServiceClient(conn).ListTopics(t.Context(), &logv1.ListTopicsRequest{})
		return err
	}
	require.NoError(t, list(credentials.NewTLS(&tls.Config{RootCAs: a.pool})))
	require.Equal(t, codes.Unavailable, status.Code(list(insecure.NewCredentials())))

	old, err := tls.Dial("tcp", address, &tls.Config{RootCAs: a.pool, MaxVersion: tls.VersionTLS11})
	require.Error(t, err, old)

	// A new certificate is shown on both doors, to who connects then.
	a.issue(t, 8)
	for _, address := range []string{address, s.service.GRPCAddr().String()} {
		require.Eventually(t, func() bool {
			conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: a.pool, NextProtos: []string{"h2"}})
			if err != nil {
				return false
			}
			defer func() { _ = conn.Close() }()
			return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64() == 8
		}, eventually, 10*time.Millisecond)
	}
}

func TestTLSFilesMustBeGood(t *testing.T) {
	a := newAuthority(t)
	cfg := defaults(t)
	a.setting(&cfg)
	_, err := gateway.New(cfg, gateway.Deps{HTTP: listen(t), GRPC: listen(t)})
	require.ErrorContains(t, err, "--tls-cert")
}
