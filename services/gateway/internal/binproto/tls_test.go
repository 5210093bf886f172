package binproto_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/gateway/internal/binproto"
)

// identity returns the config of a server on this machine and one of its clients'.
func identity(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:         true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
}

// dialTLS shakes hands, with TLS and with the protocol.
func (d *door) dialTLS(t *testing.T, config *tls.Config, features uint32) *client {
	t.Helper()
	c := d.dial(t)
	c.conn = tls.Client(c.conn, config)
	c.send(hello("ES01", features, ""))
	require.Equal(t, reply(0, features, ""), c.read(13))
	c.gzip = features&1 != 0
	return c
}

func TestTLS(t *testing.T) {
	config, trusting := identity(t)
	s := series{t, prometheus.NewRegistry()}
	f := &fake{}
	secure := func(_ *binproto.Config, deps *binproto.Deps) { deps.TLS = config }
	d := start(t, f, observed(s), secure)
	value := strings.Repeat("x", 1000_000)
	c := d.dialTLS(t, trusting, 1)
	for range 8 {
		require.Equal(t, byte(0x81), c.call(produce, records("t", val(value))).op)
	}
	require.True(t, strings.HasSuffix(c.call(consume, reading("t", 7)).payload, value))

	t.Run("plain bytes", func(t *testing.T) {
		plain := d.dial(t)
		plain.send(hello("ES01", 0, ""))
		plain.over()
		require.NoError(t, plain.conn.Close())
		s.comesTo(1, "connections_refused_total{reason=broken_handshake}")
	})
	t.Run("a handshake that never ends", func(t *testing.T) {
		half := start(t, f, secure, func(c *binproto.Config, _ *binproto.Deps) { c.HandshakeTimeout = 50 * time.Millisecond }).dial(t)
		half.send([]byte("\x16\x03\x01\x02\x00\x01\x00"))
		half.over()
	})
	t.Run("a slow reader", func(t *testing.T) {
		s := series{t, prometheus.NewRegistry()}
		d := start(t, f, observed(s), secure, func(c *binproto.Config, _ *binproto.Deps) { c.WriteTimeout = 100 * time.Millisecond })
		slow := d.dialTLS(t, trusting, 0)
		// At once: it may be cut off as soon as it has asked for something.
		slow.send(append(frame{1, consume, reading("t", 0)}.bytes(false), frame{2, consume, reading("t", 0)}.bytes(false)...))
		s.comesTo(1, "connections_closed_total{reason=slow_reader}")
	})
	c.alive()
	// A farewell comes, so that the end is no cut.
	go d.stop()
	c.over()
	require.NoError(t, c.conn.Close())
}
