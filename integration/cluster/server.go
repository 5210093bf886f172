package cluster

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// StartTimeout ends a start that hangs.
const StartTimeout = time.Minute

// Server is a server with all services. Its addresses and its data directory
// stay the same over stops and starts. Methods are for one goroutine at a time.
type Server interface {
	// Start returns when the server is ready.
	Start(ctx context.Context) error
	// Stop stops the server cleanly. Stopping what does not run is no error.
	Stop() error
	// HTTP is the URL of the HTTP API, without a slash at its end.
	HTTP() string
	// GRPC is the host:port of the public gRPC API.
	GRPC() string
	// Binary is the host:port of the binary protocol, empty without Options.Binary.
	Binary() string
	// DataDir is the data directory, or the folder that has one for each process.
	DataDir() string
	// Log is what the server has logged, its end if that was much.
	Log() string
}

// Options say how a server is set up.
type Options struct {
	// Flags of `sluice serve` are added to those that name addresses and the data
	// directory.
	Flags []string
	// Binary opens the door of the binary protocol.
	Binary bool
	// DataDir is a folder of the test's own if empty.
	DataDir string
	// Env are variables (NAME=value) that a process has beside the test's own.
	Env []string
}

// Kinds are the kinds of server that must behave alike.
var Kinds = map[string]func(t testing.TB, o Options) Server{
	"process":    func(t testing.TB, o Options) Server { return NewProcess(t, o) },
	"in process": func(t testing.TB, o Options) Server { return NewInProcess(t, o) },
	"services":   func(t testing.TB, o Options) Server { return NewServices(t, o) },
}

// serveFlags are the flags of a server of `sluice serve`.
func serveFlags(s interface {
	DataDir() string
	flags() []string
}, o Options) []string {
	return slices.Concat([]string{"--data-dir", s.DataDir()}, s.flags(), o.Flags)
}

// OnEach runs a test on a fresh, ready server of each kind.
func OnEach(t *testing.T, o Options, test func(t *testing.T, s Server)) {
	for name, make := range Kinds {
		t.Run(name, func(t *testing.T) {
			s := make(t, o)
			Start(t, s)
			test(t, s)
		})
	}
}

// Start starts a server, or one service, or fails the test.
func Start(t testing.TB, s interface {
	Start(ctx context.Context) error
}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), StartTimeout)
	defer cancel()
	require.NoError(t, s.Start(ctx))
}

// Restart stops a server cleanly and starts it again. Separate services are killed
// one after the other instead, and each is started before the next one goes.
func Restart(t testing.TB, s Server) {
	t.Helper()
	if services, ok := s.(*Services); ok {
		services.Roll(t)
		return
	}
	require.NoError(t, s.Stop())
	Start(t, s)
}

// AdminKey returns the secret of the first administrator's key.
func AdminKey(t testing.TB, s Server) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.DataDir(), "bootstrap.key"))
	require.NoError(t, err)
	elsewhere, err := filepath.Glob(filepath.Join(s.DataDir(), "*", "bootstrap.key"))
	require.NoError(t, err)
	files = append(files, elsewhere...)
	require.Len(t, files, 1, "one node makes the first key")
	secret, err := os.ReadFile(files[0])
	require.NoError(t, err)
	return strings.TrimSpace(string(secret))
}

// own registers that the server ends with the test and that a failed test shows
// its log.
func own(t testing.TB, s Server) {
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if t.Failed() {
			t.Logf("log of the server:\n%s", s.Log())
		}
	})
}
