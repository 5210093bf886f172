package interop

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
)

const root = "../.."

// Where `make interop` puts what the stubs need.
var (
	python      = filepath.Join(root, ".cache", "python", "bin", "python")
	nodeModules = filepath.Join(root, ".cache", "typescript", "node_modules")
)

// seen is what a program under testdata/stubs prints. Both do the same.
type seen struct {
	// As text, since JSON in JavaScript has no 64-bit numbers.
	RetentionMs string   `json:"retention_ms"`
	Refused     string   `json:"refused"`
	Produced    [][2]int `json:"produced"`
	Records     []struct {
		Partition int     `json:"partition"`
		Offset    int64   `json:"offset"`
		Key       *string `json:"key"`
		// In hex.
		Value string `json:"value"`
	} `json:"records"`
	Committed int64 `json:"committed"`
}

// TestStubs has programs in other languages produce and consume through the
// stubs in gen/, over gRPC.
func TestStubs(t *testing.T) {
	server := cluster.NewProcess(t, cluster.Options{})
	cluster.Start(t, server)
	api := httpapi.New(server.HTTP())
	t.Cleanup(api.Close)

	t.Run("Python", func(t *testing.T) {
		requirePeer(t, python)
		command := exec.CommandContext(t.Context(), python, filepath.Join("testdata", "stubs", "client.py"), server.GRPC(), "python")
		command.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root, "gen", "python"), "PYTHONDONTWRITEBYTECODE=1")
		check(t, api, "python", "ALREADY_EXISTS", run(t, command))
	})
	t.Run("TypeScript", func(t *testing.T) {
		node := requirePeer(t, "node")
		requirePeer(t, filepath.Join(nodeModules, ".bin", "tsc"))
		program := compile(t)
		check(t, api, "typescript", "AlreadyExists", run(t, exec.CommandContext(t.Context(), node, program, server.GRPC(), "typescript")))
	})
}

// requirePeer finds a program. Where it is absent it skips the test, or fails it
// if SLUICE_REQUIRE_PEERS is 1.
func requirePeer(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("SLUICE_REQUIRE_PEERS") != "1" {
		t.Skipf("%v: `make interop` puts the stubs' runtimes there; SLUICE_REQUIRE_PEERS=1 makes this a failure", err)
	}
	require.NoError(t, err)
	return path
}

// compile checks the types of the stubs and of the program that uses them, and
// returns the program. Both stand in a folder of the test's, from where node
// finds the modules, which are outside of the sources.
func compile(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	modules, err := filepath.Abs(nodeModules)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(modules, filepath.Join(folder, "node_modules")))
	require.NoError(t, os.CopyFS(filepath.Join(folder, "gen"), os.DirFS(filepath.Join(root, "gen", "ts"))))
	require.NoError(t, os.CopyFS(folder, os.DirFS(filepath.Join("testdata", "stubs"))))
	run(t, exec.CommandContext(t.Context(), filepath.Join(modules, ".bin", "tsc"), "-p", folder))
	return filepath.Join(folder, "out", "client.js")
}

// run returns what a command prints.
func run(t *testing.T, command *exec.Cmd) []byte {
	t.Helper()
	var failed strings.Builder
	command.Stderr = &failed
	out, err := command.Output()
	require.NoError(t, err, "%s\n%s%s", command, failed.String(), out)
	return out
}

// check compares what a program saw with what it should have, and with what the
// HTTP API shows of it.
func check(t *testing.T, api *httpapi.Client, topic, refused string, printed []byte) {
	t.Helper()
	var got seen
	require.NoError(t, json.Unmarshal(printed, &got), "%s", printed)
	require.Equal(t, "9007199254740993", got.RetentionMs)
	require.Equal(t, refused, got.Refused)
	require.Equal(t, [][2]int{{0, 0}, {1, 0}, {1, 1}}, got.Produced)
	require.EqualValues(t, 2, got.Committed)
	require.Len(t, got.Records, 3)

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	i := 0
	for partition, values := range [][]string{{"checkout"}, {"signup", "\ufffd\x00"}} {
		records, err := api.ReadFrom(ctx, topic, partition, 0)
		require.NoError(t, err)
		require.Len(t, records, len(values))
		for j, record := range records {
			require.Equal(t, values[j], record.Value)
			require.Equal(t, partition, got.Records[i].Partition)
			require.Equal(t, record.Offset, got.Records[i].Offset)
			require.Equal(t, record.Key, got.Records[i].Key)
			i++
		}
	}
	require.Equal(t, "636865636b6f7574", got.Records[0].Value)
	require.Equal(t, "7369676e7570", got.Records[1].Value)
	require.Equal(t, "ff00", got.Records[2].Value)
	offsets, err := api.Offsets(ctx, topic)
	require.NoError(t, err)
	require.Equal(t, map[string]map[int]int64{topic: {1: 2}}, offsets)
}
