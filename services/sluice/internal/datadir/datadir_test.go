package datadir

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenKeepsTheNodeID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "data")

	first, err := Open(path, "")
	require.NoError(t, err)
	require.NoError(t, ValidateNodeID(first.NodeID()))
	require.Equal(t, filepath.Join(path, "etcd"), first.Path("etcd"))
	require.NoError(t, first.Close())

	second, err := Open(path, "")
	require.NoError(t, err)
	require.Equal(t, first.NodeID(), second.NodeID())
	require.NoError(t, second.Close())

	third, err := Open(path, first.NodeID())
	require.NoError(t, err)
	require.NoError(t, third.Close())
}

func TestOpenRefuses(t *testing.T) {
	path := t.TempDir()
	dir, err := Open(path, "node-a")
	require.NoError(t, err)

	_, err = Open(path, "")
	require.EqualError(t, err, "data directory "+path+" is in use by process "+strconv.Itoa(os.Getpid()))
	require.NoError(t, dir.Close())

	_, err = Open(path, "node-b")
	require.ErrorContains(t, err, `belongs to node "node-a", not to --node-id "node-b"`)

	for _, damaged := range []struct{ name, text, says string }{
		{"format", "2\n", "written in format 2; this version of sluice knows format 1"},
		{"format", "", "file format is damaged"},
		{"node-id", "", "file node-id is damaged"},
		{"node-id", "a/b\n", "file node-id is damaged"},
	} {
		before, err := os.ReadFile(filepath.Join(path, damaged.name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(path, damaged.name), []byte(damaged.text), 0o600))
		_, err = Open(path, "")
		require.ErrorContains(t, err, damaged.says)
		require.NoError(t, os.WriteFile(filepath.Join(path, damaged.name), before, 0o600))
	}

	dir, err = Open(path, "")
	require.NoError(t, err, "a refusal gives the lock back")
	require.NoError(t, dir.Close())

	_, err = Open(t.TempDir(), "a b")
	require.ErrorContains(t, err, "node id")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = Open(file, "")
	require.Error(t, err)
}

func TestValidateNodeID(t *testing.T) {
	for _, good := range []string{"a", "node-1", "0.x_Y", strings.Repeat("a", 63)} {
		require.NoError(t, ValidateNodeID(good))
	}
	for _, bad := range []string{"", ".", "-a", "a/b", "a b", "ä", strings.Repeat("a", 64), "a\n"} {
		require.Error(t, ValidateNodeID(bad), bad)
	}
}
