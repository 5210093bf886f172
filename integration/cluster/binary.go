package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// built are the binaries that this test process has made.
var built struct {
	sync.Mutex
	dir      string
	binaries map[string]binary
}

type binary struct {
	path string
	err  error
}

// Binary returns the path of the sluice binary: the one that SLUICE_BINARY
// names, or else one that is built once for the test process. A TestMain that
// ends with Main removes it again.
func Binary(t testing.TB) string {
	t.Helper()
	return find(t, "SLUICE_BINARY", "sluice", "github.com/sluiceio/sluice/services/sluice/cmd/sluice")
}

// EtcdBinary returns the path of an etcd, as Binary does: ETCD_BINARY's, or one of
// the version that the workspace pins.
func EtcdBinary(t testing.TB) string {
	t.Helper()
	return find(t, "ETCD_BINARY", "etcd", "go.etcd.io/etcd/server/v3")
}

func find(t testing.TB, variable, name, source string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	built.Lock()
	defer built.Unlock()
	b, ok := built.binaries[name]
	if !ok {
		b.path, b.err = build(name, source)
		if built.binaries == nil {
			built.binaries = make(map[string]binary)
		}
		built.binaries[name] = b
	}
	require.NoError(t, b.err)
	return b.path
}

// build builds a program into the folder of this process, which built's lock is
// held for.
func build(name, source string) (string, error) {
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "sluice-integration-")
		if err != nil {
			return "", err
		}
		built.dir = dir
	}
	path := filepath.Join(built.dir, name)
	command := exec.Command("go", "build", "-o", path, source)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return path, nil
}

// Main runs a package's tests, removes the binaries that they built, and returns
// the exit status.
func Main(m *testing.M) int {
	status := m.Run()
	built.Lock()
	defer built.Unlock()
	if built.dir != "" {
		if err := os.RemoveAll(built.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return status
}
