package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOptionsComeFromThreePlaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	require.NoError(t, os.WriteFile(file, []byte("lease-ttl: 1ms\nnode-id: from/file\n"), 0o600))

	// No server starts: each of these values is refused, and shown.
	t.Setenv("SLUICE_CONFIG", file)
	o := execute(t, "", "serve")
	require.Equal(t, exitUsage, o.status)
	require.Contains(t, o.err, "--lease-ttl is 1ms")
	require.Contains(t, o.err, `"from/file"`)

	t.Setenv("SLUICE_LEASE_TTL", "2ms")
	o = execute(t, "", "serve")
	require.Contains(t, o.err, "--lease-ttl is 2ms")
	require.Contains(t, o.err, `"from/file"`)

	o = execute(t, "", "serve", "--lease-ttl", "3ms")
	require.Contains(t, o.err, "--lease-ttl is 3ms")
	require.Contains(t, o.err, `"from/file"`)
}

// Whoever got several options wrong hears of all of them at once: where each was
// given, what was given, and what was expected.
func TestFaultsOfAllPlacesAreToldTogether(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	require.NoError(t, os.WriteFile(file, []byte("request-timeout: soon\nallow-remote-unauthenticated: perhaps\n"), 0o600))
	t.Setenv("SLUICE_SEGMENT_BYTES", "much")
	args := []string{
		"serve", "--config", file, "--lease-ttl", "1 hour", "--storage-max-awake", "x",
		"--log-level=loud",
	}
	faults := []string{
		`--lease-ttl on the command line: expected a duration such as 500ms, 30s or 1h30m, got "1 hour"`,
		`--storage-max-awake on the command line: expected a whole number, got "x"`,
		`--log-level on the command line: expected text, got "loud": `,
		`SLUICE_SEGMENT_BYTES in the environment: expected a whole number, got "much"`,
		"request-timeout in " + file + `: expected a duration such as 500ms, 30s or 1h30m, got "soon"`,
		"allow-remote-unauthenticated in " + file + `: expected true or false, got "perhaps"`,
	}
	o := execute(t, "", args...)
	require.Equal(t, exitUsage, o.status)
	for _, fault := range faults {
		require.Contains(t, o.err, fault)
	}
	// An option that does not exist ends the reading of the command line, not the list.
	o = execute(t, "", append(args, "--nonsense")...)
	require.Equal(t, exitUsage, o.status)
	for _, fault := range append(faults, "unknown flag: --nonsense") {
		require.Contains(t, o.err, fault)
	}
	o = execute(t, "", append(args, "--node-id")...)
	require.Contains(t, o.err, "flag needs an argument: --node-id")
	require.Contains(t, o.err, faults[0])

	// Whoever asks for help is not told that nothing is the default.
	help := execute(t, "", "serve", "--help")
	require.Equal(t, exitOK, help.status)
	require.Contains(t, help.out, "(default 5s)")
	require.NotContains(t, help.out, "(default [])")
	require.NotContains(t, help.out, "(default 0)")
}

func TestServeRefuses(t *testing.T) {
	for _, test := range []struct {
		args string
		says string
	}{
		{"serve --nonsense", "unknown flag: --nonsense"},
		{"serve argument", "unknown command \"argument\""},
		{"serve --auth maybe", "--auth must be off or required"},
		{"serve --tls-cert c.pem", "--tls-cert and --tls-key must be given together"},
		{"gateway --auth maybe", "--auth must be off or required"},
		{"serve --data-dir=", "--data-dir is empty"},
		{"serve --node-id a/b", "--node-id: node id \"a/b\""},
		{"serve --bind-internal 127.0.0.1:1", "--bind-internal without --etcd-endpoints"},
		{"serve --advertise-internal 127.0.0.1:1", "--advertise-internal without --etcd-endpoints"},
		{"serve --etcd-endpoints 127.0.0.1:1 --bind-internal nonsense", "expected host:port"},
		{"serve --etcd-endpoints 127.0.0.1:1 --bind-internal 0.0.0.0:1", "--advertise-internal is missing"},
		{"serve --etcd-endpoints 127.0.0.1:1 --bind-internal 10.0.0.1:1", "is reached from other machines"},
		{"serve --etcd-endpoints 127.0.0.1:1 --bind-internal example.org:1", "is reached from other machines"},
		{"serve --flush-every-records 0", "--flush-every-records is 0"},
		{"serve --config /nonexistent", "/nonexistent"},
		{"serve --cold-storage gs://bucket", "--cold-storage begins with \"gs:\""},
		{"serve --cold-storage data/cold", "within --data-dir"},
		{"storage --etcd-endpoints 127.0.0.1:1 --cold-storage s3://bucket?x=y", "there is no parameter \"x\""},
		{"gateway --cold-storage /mnt", "unknown flag: --cold-storage"},
		{"storage", "--etcd-endpoints is missing"},
		{"storage --bind 127.0.0.1:0", "unknown flag: --bind"},
		{"registry --segment-bytes 1", "unknown flag: --segment-bytes"},
	} {
		t.Run(test.args, func(t *testing.T) {
			o := execute(t, "", strings.Split(test.args, " ")...)
			require.Equal(t, exitUsage, o.status, o.err)
			require.Contains(t, o.err, test.says)
		})
	}

	t.Setenv("SLUICE_NONSENSE", "1")
	o := execute(t, "", "serve")
	require.Equal(t, exitUsage, o.status)
	require.Contains(t, o.err, "SLUICE_NONSENSE in the environment")
}

func TestASecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := startServe(t, dir)
	second := execute(t, "", serveArgs(dir)...)
	require.Equal(t, exitFailure, second.status)
	require.Contains(t, second.err, "data directory "+dir+" is in use by process")

	require.Equal(t, exitOK, first.stop())
	again := startServe(t, dir)
	require.Equal(t, exitOK, again.stop(), "a clean stop gives the directory back")
}

// served is `sluice serve` in the test's process.
type served struct {
	out    *watchedBuffer
	cancel context.CancelFunc
	ended  chan int
}

func serveArgs(dir string, more ...string) []string {
	return append([]string{"serve", "--data-dir", dir, "--bind", "127.0.0.1:0", "--bind-grpc", "127.0.0.1:0", "--log-level", "error"}, more...)
}

// startServe returns once the server has said that it is ready.
func startServe(t *testing.T, dir string) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &served{out: newWatchedBuffer(), cancel: cancel, ended: make(chan int, 1)}
	go func() {
		defer s.out.close()
		s.ended <- run(ctx, serveArgs(dir), Streams{In: strings.NewReader(""), Out: s.out, Err: s.out})
	}()
	t.Cleanup(cancel)
	s.out.await(t, "offset=0'\n\n")
	return s
}

// stop returns the exit status.
func (s *served) stop() int {
	s.cancel()
	return <-s.ended
}

func TestReachable(t *testing.T) {
	for bound, want := range map[string]string{
		"[::]:9000": "localhost:9000", "0.0.0.0:9000": "localhost:9000", "127.0.0.1:9000": "127.0.0.1:9000", "[::1]:9000": "[::1]:9000",
	} {
		require.Equal(t, want, reachable(bound))
	}
}
