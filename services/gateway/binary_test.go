package gateway_test

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/gateway"
)

func withBinary(c *gateway.Config) { c.BindBinary = "127.0.0.1:0" }

// helloAndPing shakes hands over a connection and has a ping answered.
func helloAndPing(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(eventually)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("ES01\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x05\x00\x00\x00\x01\x03")); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 13+9))
	return err
}

// The binary protocol speaks TLS as soon as there is a certificate, and nothing
// else then.
func TestBinaryTLS(t *testing.T) {
	a := newAuthority(t)
	a.issue(t, 7)
	s := start(t, a.setting, withBinary)
	address := s.service.BinaryAddr().String()
	secure, err := tls.Dial("tcp", address, &tls.Config{RootCAs: a.pool, ServerName: "127.0.0.1"})
	require.NoError(t, err)
	defer func() { require.NoError(t, secure.Close()) }()
	require.NoError(t, helloAndPing(secure))

	plain, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer plain.Close()
	require.Error(t, helloAndPing(plain))
}

// What is written over one door is read over the other.
func TestBinaryIsTheSameLog(t *testing.T) {
	s := start(t, withBinary)
	s.steps(t, create("t", "1"))
	conn, err := net.Dial("tcp", s.service.BinaryAddr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, helloAndPing(conn))
	payload := "\x00\x01t" + "\xff\xff\xff\xff" + "\x00\x00\x00\x01" +
		"\x00\x00\x00\x01k" + "\x00\x00\x00\x01v" + "\xff\xff\xff\xff" + "\x80\x00\x00\x00\x00\x00\x00\x00"
	frame := binary.BigEndian.AppendUint32(nil, uint32(5+len(payload)))
	_, err = conn.Write(append(frame, "\x00\x00\x00\x02\x01"+payload...))
	require.NoError(t, err)
	got := make([]byte, 9+4+13)
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, byte(0x81), got[8])
	s.steps(t, step{"GET", "/topics/t/consume?partition=0&offset=0", "", 200,
		`{"records":[{"partition":0,"offset":0,"timestamp_ms":1763500000000,"key":"k","value":"v"}],"next_offset":1,"high_watermark":1}`})
}
