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

// built is the binary that this test process has made, if it has.
var built struct {
	sync.Mutex
	dir  string
	path string
	err  error
}

// Binary returns the path of the sluice binary: the one that SLUICE_BINARY
// names, or else one that is built once for the test process. A TestMain that
// ends with Main removes it again.
func Binary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("SLUICE_BINARY"); path != "" {
		return path
	}
	built.Lock()
	defer built.Unlock()
	if built.path == "" && built.err == nil {
		built.path, built.err = build()
	}
	require.NoError(t, built.err)
	return built.path
}

func build() (string, error) {
	dir, err := os.MkdirTemp("", "sluice-integration-")
	if err != nil {
		return "", err
	}
	built.dir = dir
	path := filepath.Join(dir, "sluice")
	command := exec.Command("go", "build", "-o", path, "github.com/sluiceio/sluice/services/sluice/cmd/sluice")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build sluice: %w\n%s", err, out)
	}
	return path, nil
}

// Main runs a package's tests, removes the binary that they built, and returns
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
