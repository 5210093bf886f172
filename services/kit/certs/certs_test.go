package certs

import (
	"bytes"
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
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const eventually = time.Minute

// pair makes a certificate for localhost and its key.
func pair(t *testing.T, name string) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		NotAfter:     time.Now().Add(time.Hour),
		DNSNames:     []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *log) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// served is a listener that shows a pair.
type served struct {
	*Pair
	log     *log
	address string
}

func serve(t *testing.T, certFile, keyFile string) *served {
	t.Helper()
	s := &served{log: &log{}}
	var err error
	s.Pair, err = Load(Files{Cert: certFile, Key: keyFile, Flag: "--tls"}, slog.New(slog.NewTextHandler(s.log, nil)))
	require.NoError(t, err)
	s.interval = time.Millisecond
	listener, err := tls.Listen("tcp", "127.0.0.1:0", s.Config())
	require.NoError(t, err)
	s.address = listener.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	var parts sync.WaitGroup
	parts.Go(func() { _ = s.Run(ctx) })
	parts.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		parts.Wait()
	})
	return s
}

// shown is the name in the certificate that a client gets.
func (s *served) shown(t *testing.T) string {
	t.Helper()
	conn, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

func (s *served) eventuallyShows(t *testing.T, name string) {
	t.Helper()
	require.Eventually(t, func() bool { return s.shown(t) == name }, eventually, 5*time.Millisecond)
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, data, 0o600))
}

func TestFilesThatAreWrittenAnew(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	oneCert, oneKey := pair(t, "one")
	twoCert, twoKey := pair(t, "two")
	write(t, certFile, oneCert)
	write(t, keyFile, oneKey)
	s := serve(t, certFile, keyFile)
	require.Equal(t, "one", s.shown(t))

	// The one file without the other: the old pair stays, and the log says so, once.
	// Beside that it has what was read of files that were half written.
	const unfit = "private key does not match public key"
	write(t, certFile, twoCert)
	require.Eventually(t, func() bool { return s.log.count(unfit) == 1 }, eventually, time.Millisecond)
	require.Equal(t, "one", s.shown(t))
	write(t, keyFile, twoKey)
	s.eventuallyShows(t, "two")
	require.Equal(t, 1, s.log.count(unfit))

	// Nonsense, and nothing.
	write(t, keyFile, []byte("nonsense"))
	require.Eventually(t, func() bool { return s.log.count("failed to find any PEM data") > 0 }, eventually, time.Millisecond)
	require.NoError(t, os.Remove(certFile))
	require.Eventually(t, func() bool { return s.log.count("no such file") > 0 }, eventually, time.Millisecond)
	require.Equal(t, "two", s.shown(t))
	write(t, certFile, oneCert)
	write(t, keyFile, oneKey)
	s.eventuallyShows(t, "one")
	require.Zero(t, s.log.count("PRIVATE"), "a key is in no log")
}

// What Kubernetes does with a mounted secret: the folder is a symlink that is
// replaced, and the paths stay as they are.
func TestASymlinkThatIsSwapped(t *testing.T) {
	dir := t.TempDir()
	stamp := time.Now()
	for _, name := range []string{"one", "two"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		cert, key := pair(t, name)
		for file, data := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
			write(t, filepath.Join(dir, name, file), data)
			require.NoError(t, os.Chtimes(filepath.Join(dir, name, file), stamp, stamp))
		}
	}
	current := filepath.Join(dir, "current")
	require.NoError(t, os.Symlink("one", current))
	s := serve(t, filepath.Join(current, "tls.crt"), filepath.Join(current, "tls.key"))
	require.Equal(t, "one", s.shown(t))
	require.NoError(t, os.Symlink("two", current+".new"))
	require.NoError(t, os.Rename(current+".new", current))
	s.eventuallyShows(t, "two")
}

func TestOldVersionsOfTLSAreRefused(t *testing.T) {
	dir := t.TempDir()
	cert, key := pair(t, "one")
	write(t, filepath.Join(dir, "c"), cert)
	write(t, filepath.Join(dir, "k"), key)
	s := serve(t, filepath.Join(dir, "c"), filepath.Join(dir, "k"))
	for version, ok := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		conn, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
		require.Equal(t, ok, err == nil, "%s: %v", tls.VersionName(version), err)
		if err == nil {
			require.NoError(t, conn.Close())
		}
	}
	_, err := Load(Files{Cert: filepath.Join(dir, "none"), Key: filepath.Join(dir, "k"), Flag: "--tls"}, s.logger)
	require.ErrorContains(t, err, "--tls-cert")
	_, err = Load(Files{Cert: filepath.Join(dir, "c"), Key: filepath.Join(dir, "c"), Flag: "--tls"}, s.logger)
	require.ErrorContains(t, err, "--tls-key")
}
