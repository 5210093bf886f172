package common

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
)

// noPasses leaves passes to those who ask for them.
var noPasses = []string{"--retention-check-interval", "0", "--compaction-check-interval", "0", "--segment-delete-grace", "0"}

// runPass runs a pass, which is over when it returns.
func runPass(t *testing.T, api *httpapi.Client, kind string) {
	t.Helper()
	step{method: "POST", path: "/admin/run-" + kind, status: 204}.run(t, api)
}

func metric(t *testing.T, api *httpapi.Client, name string) string {
	t.Helper()
	answer, err := api.Do(t.Context(), "GET", "/metrics", nil)
	require.NoError(t, err)
	for _, line := range series(string(answer.Body)) {
		if strings.HasPrefix(line, name+`{partition="0",topic="t"}`) {
			return line[strings.LastIndexByte(line, ' ')+1:]
		}
	}
	return ""
}

// fill writes records of about a kilobyte, one after the other, with so many
// keys in turn.
func fill(t *testing.T, api *httpapi.Client, n, keys int) {
	t.Helper()
	for i := range n {
		key := fmt.Sprint("k", i%keys)
		record := httpapi.To(0, fmt.Sprintf("%d %s", i, strings.Repeat("x", 1000)))
		record.Key = &key
		_, err := api.Produce(t.Context(), "t", []httpapi.Record{record})
		require.NoError(t, err)
	}
}

func partitionOf(t *testing.T, api *httpapi.Client) httpapi.Partition {
	t.Helper()
	partitions, err := api.Topic(t.Context(), "t")
	require.NoError(t, err)
	return partitions[0]
}

func TestRunRetention(t *testing.T) {
	cluster.OnEach(t, cluster.Options{Flags: noPasses}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		require.NoError(t, api.CreateTopic(t.Context(), "t", 1, map[string]any{"segment_bytes": 4096}))
		fill(t, api, 20, 20)
		before := partitionOf(t, api)
		require.Greater(t, before.SegmentCount, 4)
		runPass(t, api, "retention")
		require.Equal(t, before, partitionOf(t, api), "a week by default")

		step{method: "PUT", path: "/topics/t/config", body: `{"retention_bytes":9000}`, status: 200,
			want: `{"retention_ms":604800000,"retention_bytes":9000,"cleanup_policy":"delete","segment_bytes":4096,"tombstone_retention_ms":86400000}`}.run(t, api)
		require.Equal(t, before, partitionOf(t, api), "from the next pass on")
		runPass(t, api, "retention")
		after := partitionOf(t, api)
		require.Less(t, after.SizeBytes, int64(9000+4096+1100))
		require.GreaterOrEqual(t, after.SizeBytes, int64(9000))
		require.Equal(t, before.EndOffset, after.EndOffset)
		require.Positive(t, after.StartOffset)
		require.Equal(t, fmt.Sprint(before.SegmentCount-after.SegmentCount), metric(t, api, "es_retention_segments_deleted_total"))
		require.Equal(t, fmt.Sprint(before.SizeBytes-after.SizeBytes), metric(t, api, "es_retention_bytes_reclaimed_total"))
		page, err := api.Consume(t.Context(), "t", 0, 0)
		require.NoError(t, err)
		require.Equal(t, after.StartOffset, page.Records[0].Offset, "a reader from before is taken to the start")

		step{method: "PUT", path: "/topics/t/config", body: `{"retention_ms":1}`, status: 200,
			want: `{"retention_ms":1,"retention_bytes":9000,"cleanup_policy":"delete","segment_bytes":4096,"tombstone_retention_ms":86400000}`}.run(t, api)
		left := partitionOf(t, api)
		for left.SegmentCount > 1 { // until all are older than that
			runPass(t, api, "retention")
			left = partitionOf(t, api)
		}
		runPass(t, api, "retention")
		require.Equal(t, 1, partitionOf(t, api).SegmentCount, "the one being written to stays")
		require.Less(t, left.StartOffset, left.EndOffset)
	})
}

func TestRunCompaction(t *testing.T) {
	cluster.OnEach(t, cluster.Options{Flags: noPasses}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		require.NoError(t, api.CreateTopic(t.Context(), "t", 1, map[string]any{
			"segment_bytes": 4096, "cleanup_policy": "compact", "tombstone_retention_ms": 0,
		}))
		fill(t, api, 40, 4)
		gone := "k3"
		_, err := api.Produce(t.Context(), "t", []httpapi.Record{{Key: &gone, Partition: new(int)}})
		require.NoError(t, err)
		fill(t, api, 30, 3)
		before, err := api.ReadFrom(t.Context(), "t", 0, 0)
		require.NoError(t, err)
		require.Len(t, before, 71)

		runPass(t, api, "compaction")
		got, err := api.ReadFrom(t.Context(), "t", 0, 0)
		require.NoError(t, err)
		require.Less(t, len(got), 12)
		newest := map[string]httpapi.Consumed{}
		for _, r := range before {
			newest[*r.Key] = r
		}
		for _, r := range got {
			require.Equal(t, before[r.Offset], r, "an offset never changes its record")
			require.NotEqual(t, gone, *r.Key, "a tombstone whose time is over goes too")
			delete(newest, *r.Key)
		}
		require.Len(t, newest, 1)
		require.Equal(t, fmt.Sprint(71-len(got)), metric(t, api, "es_compaction_records_dropped_total"))
		require.NotEqual(t, "0", metric(t, api, "es_compaction_runs_total"))

		// next_offset steps over gaps from anywhere.
		for from := range int64(71) {
			page, err := api.Consume(t.Context(), "t", 0, from)
			require.NoError(t, err)
			require.Greater(t, page.NextOffset, from)
			require.GreaterOrEqual(t, page.Records[0].Offset, from)
		}
		require.NoError(t, s.Stop())
		cluster.Start(t, s)
		again, err := api.ReadFrom(t.Context(), "t", 0, 0)
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}

// What a partition knows of its producers does not depend on the records that
// compaction drops: a retry of them is still a duplicate, with its offset, also
// after a restart; and readers pass by what is left of their batches.
func TestProducersOutliveTheirRecords(t *testing.T) {
	cluster.OnEach(t, cluster.Options{Flags: noPasses}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		require.NoError(t, api.CreateTopic(t.Context(), "t", 1, map[string]any{"segment_bytes": 4096, "cleanup_policy": "compact"}))
		for sequence := range 20 {
			step{method: "POST", path: "/topics/t/produce", status: 200,
				body: fmt.Sprintf(`{"producer_id":"p","records":[{"key":"k","value":"v%d","partition":0,"sequence":%d}]}`, sequence, sequence),
				want: fmt.Sprintf(`{"results":[{"partition":0,"offset":%d}]}`, sequence)}.run(t, api)
		}
		fill(t, api, 30, 2)
		key := "k"
		_, err := api.Produce(t.Context(), "t", []httpapi.Record{{Key: &key, Value: "last", Partition: new(int)}})
		require.NoError(t, err)
		fill(t, api, 10, 2)
		runPass(t, api, "compaction")
		retry := func() {
			t.Helper()
			step{method: "POST", path: "/topics/t/produce", status: 200,
				body: `{"producer_id":"p","records":[{"key":"k","value":"v19","partition":0,"sequence":19}]}`,
				want: `{"results":[{"partition":0,"offset":19,"duplicate":true}]}`}.run(t, api)
			page, err := api.Consume(t.Context(), "t", 0, 0)
			require.NoError(t, err)
			require.Less(t, len(page.Records), 10)
			require.GreaterOrEqual(t, page.Records[0].Offset, int64(20))
		}
		retry()
		require.NoError(t, s.Stop())
		cluster.Start(t, s)
		retry()
		runPass(t, api, "compaction")
		retry()
	})
}
