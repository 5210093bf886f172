package common

import (
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
)

func tieredOf(t *testing.T, api *httpapi.Client) []httpapi.Tiered {
	t.Helper()
	segments, err := api.Tiered(t.Context(), "t", 0)
	require.NoError(t, err)
	require.NotNil(t, segments)
	return segments
}

// filesIn are the names of the files below a folder.
func filesIn(t *testing.T, folder string) []string {
	t.Helper()
	files := []string{}
	require.NoError(t, filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err = filepath.Rel(folder, name)
		if filepath.Dir(filepath.Dir(name)) != "~partial" {
			files = append(files, name)
		}
		return err
	}))
	return files
}

func requireAll(t *testing.T, api *httpapi.Client, from, to int64) {
	t.Helper()
	records, err := api.ReadFrom(t.Context(), "t", 0, 0)
	require.NoError(t, err)
	require.Len(t, records, int(to-from))
	for i, r := range records {
		require.Equal(t, from+int64(i), r.Offset)
	}
}

func TestTiered(t *testing.T) {
	for name, make := range cluster.Kinds {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "cold")
			s := make(t, cluster.Options{Flags: append([]string{"--cold-storage", folder, "--cold-check-interval", "0"}, noPasses...)})
			cluster.Start(t, s)
			api := connect(t, s.HTTP())
			require.NoError(t, api.CreateTopic(t.Context(), "t", 1, map[string]any{"segment_bytes": 4096}))
			require.Empty(t, tieredOf(t, api))
			fill(t, api, 20, 20)
			runPass(t, api, "retention")

			listed := tieredOf(t, api)
			require.Greater(t, len(listed), 4)
			require.Len(t, filesIn(t, folder), len(listed))
			for i, segment := range listed {
				require.FileExists(t, filepath.Join(folder, segment.Object))
				require.True(t, segment.Local, "a week, as retention")
				require.Positive(t, segment.SizeBytes)
				require.LessOrEqual(t, segment.MaxTimestampMs, segment.UploadedAtMs)
				if i > 0 {
					require.Equal(t, listed[i-1].LastOffset+1, segment.BaseOffset)
				}
			}
			requireAll(t, api, 0, 20)

			step{method: "PUT", path: "/topics/t/config", body: `{"local.retention.bytes":"0"}`, status: 200,
				want: `{"retention_ms":604800000,"retention_bytes":null,"cleanup_policy":"delete","segment_bytes":4096,"tombstone_retention_ms":86400000,"local.retention.bytes":"0"}`}.run(t, api)
			runPass(t, api, "retention")
			for _, segment := range tieredOf(t, api) {
				require.False(t, segment.Local)
			}
			requireAll(t, api, 0, 20)
			cluster.Restart(t, s)
			requireAll(t, api, 0, 20)
			require.Len(t, tieredOf(t, api), len(listed))

			step{method: "PUT", path: "/topics/t/config", body: `{"retention_bytes":9000}`, status: 200,
				want: `{"retention_ms":604800000,"retention_bytes":9000,"cleanup_policy":"delete","segment_bytes":4096,"tombstone_retention_ms":86400000,"local.retention.bytes":"0"}`}.run(t, api)
			runPass(t, api, "retention")
			kept := tieredOf(t, api)
			require.NotEmpty(t, kept)
			require.Less(t, len(kept), len(listed))
			require.Len(t, filesIn(t, folder), len(kept))
			requireAll(t, api, kept[0].BaseOffset, 20)
			require.Equal(t, kept[0].BaseOffset, partitionOf(t, api).StartOffset)

			step{method: "DELETE", path: "/topics/t", status: 200, want: `{"name":"t","partitions":1}`}.run(t, api)
			require.Eventually(t, func() bool {
				runPass(t, api, "retention")
				return len(filesIn(t, folder)) == 0
			}, patience, 20*time.Millisecond)
		})
	}
}
