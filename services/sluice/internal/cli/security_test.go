package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

// guarded lists topics to whoever has the key.
type guarded struct {
	logv1.UnimplementedTopicServiceServer
}

func (guarded) ListTopics(ctx context.Context, _ *logv1.ListTopicsRequest) (*logv1.ListTopicsResponse, error) {
	header, _ := metadata.FromIncomingContext(ctx)
	if got := header.Get("authorization"); len(got) != 1 || got[0] != "Bearer esk_good" {
		return nil, status.Error(codes.Unauthenticated, "the key is not known")
	}
	return &logv1.ListTopicsResponse{Topics: []string{"orders"}}, nil
}

func startGuarded(t *testing.T, options ...grpc.ServerOption) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(options...)
	logv1.RegisterTopicServiceServer(server, guarded{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		// It ends with an error only when the test has stopped it.
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return listener.Addr().String()
}

func write(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestKeyIsShown(t *testing.T) {
	server := startGuarded(t)
	o := execute(t, server, "topic", "list")
	require.Equal(t, exitFailure, o.status)
	require.Equal(t, "sluice topic list: the key is not known\n", o.err)

	good := write(t, "esk_good\n")
	require.Equal(t, "orders\n", succeed(t, server, "topic", "list", "--key-file", good).out)
	t.Setenv("SLUICE_KEY_FILE", good)
	require.Equal(t, "orders\n", succeed(t, server, "topic", "list").out)
	t.Setenv("SLUICE_KEY_FILE", "")
	t.Setenv("SLUICE_KEY", "esk_good")
	require.Equal(t, "orders\n", succeed(t, server, "topic", "list").out)
	t.Setenv("SLUICE_KEY", "esk_bad")
	require.Equal(t, exitFailure, execute(t, server, "topic", "list").status)
	require.Equal(t, "orders\n", succeed(t, server, "topic", "list", "--key-file", good).out, "the flag counts")

	for _, bad := range []string{"", "\n", "esk secret", "esk_\x00secret", "esk_sécret", "two\nsecret lines"} {
		o := execute(t, server, "topic", "list", "--key-file", write(t, bad))
		require.Equal(t, exitFailure, o.status, "%q", bad)
		require.NotContains(t, o.err, "secret")
	}
	require.Contains(t, execute(t, server, "topic", "list", "--key-file", "/does/not/exist").err, "/does/not/exist")
}

func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	server := startGuarded(t, grpc.Creds(credentials.NewServerTLSFromCert(&tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key})))
	ca := write(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})))
	t.Setenv("SLUICE_KEY", "esk_good")

	require.Equal(t, "orders\n", succeed(t, server, "topic", "list", "--tls-ca", ca).out)
	require.Equal(t, exitFailure, execute(t, server, "topic", "list").status)
	o := execute(t, server, "topic", "list", "--tls")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, "certificate")
	t.Setenv("SLUICE_TLS_CA", ca)
	require.Equal(t, "orders\n", succeed(t, server, "topic", "list").out)
	require.Contains(t, execute(t, server, "topic", "list", "--tls-ca", write(t, "nothing")).err, "no certificate")
	require.Contains(t, execute(t, server, "topic", "list", "--tls-ca", "/does/not/exist").err, "/does/not/exist")
}
