package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/obs"
	"github.com/sluiceio/sluice/services/sluice"
)

// startNode starts a server with a door for the binary protocol, which speaks TLS
// and asks for keys, and has the environment name its certificate and the first
// key.
func startNode(t *testing.T) (grpc, binary string) {
	t.Helper()
	dir := t.TempDir()
	certificate, key := selfSigned(t)
	cfg := sluice.NewConfig(sluice.AllRoles()...)
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	cfg.RegisterFlags(flags)
	require.NoError(t, flags.Parse([]string{
		"--data-dir", dir, "--bind", "", "--bind-grpc", "127.0.0.1:0", "--bind-binary", "127.0.0.1:0",
		"--auth", "required", "--tls-cert", certificate, "--tls-key", key, "--max-record-bytes", "1000",
	}))
	node, err := sluice.New(t.Context(), *cfg, sluice.Deps{Logger: slog.New(slog.DiscardHandler), Registry: obs.NewRegistry()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- node.Run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	<-ready
	t.Setenv("SLUICE_TLS_CA", certificate)
	t.Setenv("SLUICE_KEY_FILE", filepath.Join(dir, "bootstrap.key"))
	return node.Doors()["grpc"], node.Doors()["binary"]
}

func selfSigned(t *testing.T) (certificateFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return write(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))),
		write(t, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

func TestProduceAndConsumeBinary(t *testing.T) {
	server, binary := startNode(t)
	succeed(t, server, "topic", "create", "logs")
	const lines = 2_000
	var text strings.Builder
	for i := range lines {
		fmt.Fprintf(&text, "key %d:line %d\n", i, i)
	}
	for _, more := range [][]string{nil, {"--gzip"}} {
		args := append([]string{"produce", "logs", "--binary", binary, "--key-separator", ":", "--batch-records", "10"}, more...)
		o := executeReading(t, server, strings.NewReader(text.String()), args...)
		require.Zero(t, o.status, o.err)
		require.Contains(t, o.err, "produced 2000 records to logs")
	}
	for _, more := range [][]string{nil, {"--gzip"}} {
		args := append([]string{"consume", "logs", "--binary", binary, "--key-separator", ":"}, more...)
		require.Equal(t, text.String()+text.String(), succeed(t, server, args...).out, "in the order of the lines")
	}

	// The places of the records come as JSON, and a key may be empty.
	require.Equal(t, "{\"partition\":0,\"offset\":4000}\n",
		succeed(t, server, "produce", "logs", "--binary", binary, "-p", "0", "-k", "", "-o", "json", "\x00\xff").out)
	require.Contains(t, succeed(t, server, "consume", "logs", "--binary", binary, "--from", "4000", "-o", "base64").out,
		`"offset":4000,`)
	require.Contains(t, succeed(t, server, "consume", "logs", "--binary", binary, "--from", "4000", "-o", "base64").out,
		`"key":"","value":"AP8="}`)

	// Groups go over gRPC, beside the records.
	require.Equal(t, "line 0\n", succeed(t, server, "consume", "logs", "--binary", binary, "--group", "g", "--max", "1").out)
	require.Equal(t, "line 1\n", succeed(t, server, "consume", "logs", "--binary", binary, "--group", "g", "--max", "1").out)
}

func TestProduceBinaryTellsWhatIsOnDisk(t *testing.T) {
	server, binary := startNode(t)
	succeed(t, server, "topic", "create", "logs")
	o := execute(t, server, "produce", "logs", "--binary", binary, "--batch-records", "1", "1", "2", strings.Repeat("x", 2000))
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, "records[0]")
	require.Contains(t, o.err, "(on disk: 2 records)")

	o = execute(t, server, "produce", "none", "--binary", binary, "1")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, `topic "none" does not exist`)
	o = execute(t, server, "consume", "none", "--binary", binary)
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, `topic "none" does not exist`)

	// The order of a producer's records survives many batches under way.
	args := []string{"produce", "logs", "--binary", binary, "--producer-id", "p", "-p", "0"}
	o = executeReading(t, server, strings.NewReader(strings.Repeat("line\n", 1000)), args...)
	require.Zero(t, o.status, o.err)
	o = executeReading(t, server, strings.NewReader("again\n"), append(args, "--first-sequence", "999", "-o", "json")...)
	require.Equal(t, "{\"partition\":0,\"offset\":1001,\"duplicate\":true}\n", o.out, o.err)

	for args, says := range map[string]string{
		"produce logs --gzip x":                       "--gzip is for --binary",
		"consume logs --gzip":                         "--gzip is for --binary",
		"produce logs --binary nowhere x":             "must be host:port",
		"consume logs --binary nowhere":               "must be host:port",
		"produce logs --binary [::]:9 --timeout 0s x": "must be positive",
	} {
		o := execute(t, server, strings.Fields(args)...)
		require.Equal(t, exitUsage, o.status, args)
		require.Contains(t, o.err, says, args)
	}
	t.Setenv("SLUICE_KEY_FILE", write(t, "esk_wrong"))
	o = execute(t, server, "produce", "logs", "--binary", binary, "x")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, "authentication failed")
	t.Setenv("SLUICE_TLS_CA", "")
	o = execute(t, server, "produce", "logs", "--binary", binary, "--tls", "x")
	require.Equal(t, exitFailure, o.status)
	require.Contains(t, o.err, "certificate")
}

func TestConsumeBinaryFollows(t *testing.T) {
	server, binary := startNode(t)
	succeed(t, server, "topic", "create", "logs")
	succeed(t, server, "produce", "logs", "before")
	t.Setenv("SLUICE_SERVER", server)
	out := newWatchedBuffer()
	ctx, interrupt := context.WithCancel(t.Context())
	status := make(chan int, 1)
	go func() {
		defer out.close()
		status <- run(ctx, []string{"consume", "logs", "--follow", "--binary", binary}, Streams{In: strings.NewReader(""), Out: out, Err: out})
	}()
	out.await(t, "before\n")
	succeed(t, server, "produce", "logs", "--binary", binary, "after")
	out.await(t, "after\n")
	interrupt()
	require.Zero(t, <-status)
}
