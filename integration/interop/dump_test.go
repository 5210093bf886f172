package interop

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
	"github.com/sluiceio/sluice/integration/kafkapeer"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

func TestParseDump(t *testing.T) {
	d, err := ParseDump(`Dumping /x/00000000000000000000.log
Log starting offset: 0
baseOffset: 0 lastOffset: 1 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 3 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 5 size: 90 magic: 2 compresscodec: none crc: 1 isvalid: true
| offset: 0 CreateTime: 4 keySize: 1 valueSize: 3 sequence: -1 headerKeys: [] key: k payload: a b
| offset: 1 CreateTime: 5 keySize: -1 valueSize: -1 sequence: -1 headerKeys: []
`)
	require.NoError(t, err)
	k := "k"
	require.Equal(t, Dumped{
		Batches: []Batch{{0, 1, 2, 3, true}},
		Records: []Record{{0, 4, &k, "a b"}, {1, 5, nil, ""}},
	}, d)
	_, err = ParseDump("Found 5 invalid bytes at the end of 00000000000000000000.log\n")
	require.Error(t, err)
}

const (
	topic      = "t"
	partitions = 2
)

// TestDumpLogSegments has Apache Kafka's own tool read our logs: sealed segments
// while the server runs, and all of them after a clean stop.
func TestDumpLogSegments(t *testing.T) {
	kafka := kafkapeer.Require(t)
	server := cluster.NewProcess(t, cluster.Options{})
	cluster.Start(t, server)
	api := httpapi.New(server.HTTP())
	t.Cleanup(api.Close)
	require.NoError(t, api.CreateTopic(t.Context(), topic, partitions, map[string]any{"segment_bytes": 16 << 10}))
	produce(t, api)
	wrote := readAll(t, api)

	running := segments(t, server.DataDir())
	for dir, logs := range running {
		require.Greater(t, len(logs), 2, dir)
		records := dump(t, kafka, logs[:len(logs)-1])
		partition := owner(t, wrote, records)
		require.Equal(t, wrote[partition][:len(records)], records)
	}

	require.NoError(t, server.Stop())
	stopped := segments(t, server.DataDir())
	require.Equal(t, slices.Sorted(maps.Keys(running)), slices.Sorted(maps.Keys(stopped)))
	for _, logs := range stopped {
		records := dump(t, kafka, logs)
		require.Equal(t, wrote[owner(t, wrote, records)], records)
	}
}

// TestDumpLogSegmentsAfterKill: what a start after kill -9 leaves is as sound.
func TestDumpLogSegmentsAfterKill(t *testing.T) {
	kafka := kafkapeer.Require(t)
	server := cluster.NewProcess(t, cluster.Options{})
	cluster.Start(t, server)
	api := httpapi.New(server.HTTP())
	t.Cleanup(api.Close)
	require.NoError(t, api.CreateTopic(t.Context(), topic, partitions, nil))
	produce(t, api)
	server.Kill()
	cluster.Start(t, server)
	produce(t, api)
	wrote := readAll(t, api)
	require.NoError(t, server.Stop())
	for _, logs := range segments(t, server.DataDir()) {
		records := dump(t, kafka, logs)
		require.Equal(t, wrote[owner(t, wrote, records)], records)
	}
}

// produce writes records with and without key and value, in requests of
// different sizes, to all partitions.
func produce(t *testing.T, api *httpapi.Client) {
	keys := []*string{nil, new(string), pointer("k"), pointer("schlüssel"), pointer(strings.Repeat("K", 300))}
	for request := range 60 {
		var records []httpapi.Record
		for i := range 1 + request%7 {
			for partition := range partitions {
				record := httpapi.To(partition, fmt.Sprintf("value %d.%d of %d %s", request, i, partition, strings.Repeat("ä", i*20)))
				if record.Key = keys[(request+i)%len(keys)]; request%10 == 9 {
					record.Value = ""
				}
				records = append(records, record)
			}
		}
		_, err := api.Produce(t.Context(), topic, records)
		require.NoError(t, err)
	}
}

func pointer(s string) *string { return &s }

func readAll(t *testing.T, api *httpapi.Client) [partitions][]Record {
	var all [partitions][]Record
	for partition := range partitions {
		read, err := api.ReadFrom(t.Context(), topic, partition, 0)
		require.NoError(t, err)
		for _, r := range read {
			all[partition] = append(all[partition], Record{r.Offset, r.TimestampMs, r.Key, r.Value})
		}
	}
	return all
}

// segments returns the log files of each partition of the topic by folder, in
// the order of their offsets. Folders of the system's own topics hold none of
// our values and are left out.
func segments(t *testing.T, dataDir string) map[string][]string {
	paths, err := filepath.Glob(filepath.Join(dataDir, "storage", "topics", "*", "*", "*.log"))
	require.NoError(t, err)
	slices.Sort(paths)
	found := map[string][]string{}
	for _, path := range paths {
		dir := filepath.Dir(path)
		if first, ok := found[dir]; ok {
			found[dir] = append(first, path)
			continue
		}
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		if strings.Contains(string(b), "value 0.0 of ") {
			found[dir] = []string{path}
		}
	}
	require.Len(t, found, partitions)
	return found
}

// owner finds the partition whose records these are.
func owner(t *testing.T, wrote [partitions][]Record, records []Record) int {
	require.NotEmpty(t, records)
	for partition := range partitions {
		if wrote[partition][0].Value == records[0].Value {
			return partition
		}
	}
	require.Fail(t, "nobody wrote this", "%+v", records[0])
	return -1
}

// dump runs the tool on logs that follow one another and checks every batch.
func dump(t *testing.T, kafka *kafkapeer.Kafka, logs []string) []Record {
	text, err := kafka.Run(t.Context(), kafkapeer.DumpLogSegments, "--print-data-log", "--deep-iteration", "--files", strings.Join(logs, ","))
	require.NoError(t, err)
	d, err := ParseDump(text)
	require.NoError(t, err)
	var next int64
	for _, batch := range d.Batches {
		require.True(t, batch.Valid, "%+v", batch)
		require.Equal(t, next, batch.BaseOffset)
		require.Equal(t, int64(batch.Count), batch.LastOffset-batch.BaseOffset+1)
		require.Positive(t, batch.LeaderEpoch)
		next = batch.LastOffset + 1
	}
	require.Len(t, d.Records, int(next))
	return d.Records
}
