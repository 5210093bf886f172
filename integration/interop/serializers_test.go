package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
)

// TestSerializers has Python's serializers for JSON, Avro and Protobuf register
// and find their schemas, and what one client writes another reads. With keys
// they say who they are by HTTP Basic.
func TestSerializers(t *testing.T) {
	python := requirePeer(t, filepath.Join(root, ".cache", "serializers", "bin", "python"))
	for name, flags := range map[string][]string{"without keys": nil, "with keys": {"--auth", "required"}} {
		t.Run(name, func(t *testing.T) {
			server := cluster.NewProcess(t, cluster.Options{Flags: flags})
			cluster.Start(t, server)
			args := []string{filepath.Join("testdata", "serializers", "client.py"), server.HTTP() + "/registry"}
			if flags != nil {
				key, err := os.ReadFile(filepath.Join(server.DataDir(), "bootstrap.key"))
				require.NoError(t, err)
				args = append(args, strings.TrimSpace(string(key)))
			}
			command := exec.CommandContext(t.Context(), python, args...)
			command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			out, err := command.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Equal(t, "ok json_schemas\nok avro_schemas\nok protobuf_schemas\nok administration\n", string(out))
		})
	}
}
