package binary_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/client/binary"
)

// Whom the client does not trust it does not ask again: the certificate would be the
// same.
func TestADistrustedServerIsNotAskedAgain(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}})
	require.NoError(t, err)
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake() // the client refuses
			conn.Close()
		}
	}()
	defer func() {
		require.NoError(t, listener.Close())
		<-accepting
	}()

	var dials atomic.Int32
	dial := binary.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
	var distrusted *tls.CertificateVerificationError
	single, err := binary.New(listener.Addr().String(), dial, binary.WithTLS(nil))
	require.NoError(t, err)
	require.ErrorAs(t, single.Ping(t.Context()), &distrusted)
	require.NoError(t, single.Close())
	require.EqualValues(t, 1, dials.Load())

	pipelined, err := binary.NewPipelined(listener.Addr().String(), dial, binary.WithTLS(nil))
	require.NoError(t, err)
	require.ErrorAs(t, pipelined.Ping(t.Context()), &distrusted)
	require.NoError(t, pipelined.Close())
	require.EqualValues(t, 2, dials.Load())
}
