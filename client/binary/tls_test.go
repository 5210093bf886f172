package binary_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/client/binary"
)

// identity returns the config of a server on this machine, and who vouches for it.
func identity(t *testing.T) (*tls.Config, *x509.CertPool) {
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
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, pool
}

func TestTLS(t *testing.T) {
	config, pool := identity(t)
	s := serve(t, &server{tls: config, features: 1, answer: func(_ int, id uint32, op byte, _ []byte) []byte {
		if op == 0x01 {
			return frame(id, 0x81, zip(placed(7)))
		}
		return frame(id, op|0x80, nil)
	}})
	c, err := binary.New(s.address, binary.WithTLS(&tls.Config{RootCAs: pool}), binary.WithGzip())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	p, err := binary.NewPipelined(s.address, binary.WithTLS(&tls.Config{RootCAs: pool}), binary.WithGzip())
	require.NoError(t, err)
	for n, c := range []requester{c, p} {
		for range 3 {
			got, err := c.Produce(t.Context(), one)
			require.NoError(t, err)
			require.Equal(t, []binary.Placed{{Offset: 7}}, got)
			require.Equal(t, n+1, s.connections(), "a connection that is fine is kept")
		}
	}
	require.NoError(t, p.Close())
}

// Who speaks TLS on one side only is told so, and nothing was sent.
func TestTLSOnOneSideOnly(t *testing.T) {
	config, _ := identity(t)
	secured := serve(t, &server{tls: config})
	plain := serve(t, &server{})
	for address, options := range map[string][]binary.Option{
		plain.address:   {binary.WithAttempts(2), binary.WithTLS(nil)},
		secured.address: {binary.WithAttempts(2)},
	} {
		c, err := binary.New(address, options...)
		require.NoError(t, err)
		_, err = c.Produce(t.Context(), one)
		var unreachable *binary.ConnectError
		require.ErrorAs(t, err, &unreachable)
		require.NoError(t, c.Close())
	}
	// Nor is a certificate that nobody vouches for taken.
	c, err := binary.New(secured.address, binary.WithAttempts(1), binary.WithTLS(nil))
	require.NoError(t, err)
	var unknown x509.UnknownAuthorityError
	require.ErrorAs(t, c.Ping(t.Context()), &unknown)
	require.NoError(t, c.Close())
}
