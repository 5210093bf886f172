package interop

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
	"github.com/sluiceio/sluice/integration/kafkapeer"
)

// TestDumpCompactedSegments has Apache Kafka's tool read what compaction writes:
// batches that lost records, ones whose tombstones have a horizon, and gaps.
func TestDumpCompactedSegments(t *testing.T) {
	kafka := kafkapeer.Require(t)
	for _, codec := range []string{"uncompressed", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			server := cluster.NewProcess(t, cluster.Options{Flags: []string{"--compaction-check-interval", "0"}})
			cluster.Start(t, server)
			api := httpapi.New(server.HTTP())
			t.Cleanup(api.Close)
			require.NoError(t, api.CreateTopic(t.Context(), topic, 1, map[string]any{
				"segment_bytes": 16 << 10, "cleanup_policy": "compact", "compression.type": codec,
			}))
			for request := range 200 {
				var records []httpapi.Record
				for i := range 20 {
					key := fmt.Sprint("key ", (request*7+i*i)%97)
					value := fmt.Sprintf("value %d.%d %s", request, i, strings.Repeat("ä", (i*request)%90))
					if i == 13 {
						value = "" // a tombstone
					}
					records = append(records, httpapi.Record{Key: &key, Value: value, Partition: new(int)})
				}
				_, err := api.Produce(t.Context(), topic, records)
				require.NoError(t, err)
			}
			before, err := api.ReadFrom(t.Context(), topic, 0, 0)
			require.NoError(t, err)
			answer, err := api.Do(t.Context(), "POST", "/admin/run-compaction", nil)
			require.NoError(t, err)
			require.Equal(t, 204, answer.Status)
			read, err := api.ReadFrom(t.Context(), topic, 0, 0)
			require.NoError(t, err)
			require.Less(t, len(read), len(before)/2)
			var wrote []Record
			for _, r := range read {
				wrote = append(wrote, Record{r.Offset, r.TimestampMs, r.Key, r.Value})
			}
			require.NoError(t, server.Stop())

			var logs []string
			paths, err := filepath.Glob(filepath.Join(server.DataDir(), "storage", "topics", "*", "0", "*.log"))
			require.NoError(t, err)
			slices.Sort(paths)
			for _, path := range paths { // those of the folder with most of them
				var same []string
				for _, other := range paths {
					if filepath.Dir(other) == filepath.Dir(path) {
						same = append(same, other)
					}
				}
				if len(same) > len(logs) {
					logs = same
				}
			}
			require.Greater(t, len(logs), 1)
			text, err := kafka.Run(t.Context(), kafkapeer.DumpLogSegments, "--print-data-log", "--deep-iteration", "--files", strings.Join(logs, ","))
			require.NoError(t, err)
			require.Contains(t, text, "deleteHorizonMs: OptionalLong[")
			d, err := ParseDump(text)
			require.NoError(t, err)
			next := int64(0)
			for _, batch := range d.Batches {
				require.True(t, batch.Valid, "%+v", batch)
				require.GreaterOrEqual(t, batch.BaseOffset, next)
				next = batch.LastOffset + 1
			}
			require.Equal(t, wrote, d.Records)
		})
	}
}
