package exposition_test

import (
	"bytes"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
	"github.com/sluiceio/sluice/services/gateway/internal/exposition"
)

func survey(partitions int) backend.Survey {
	t := backend.TopicSurvey{Name: "orders", Traffic: &backend.TopicTraffic{}}
	for i := range partitions {
		t.Partitions = append(t.Partitions, &storagev1.DescribeResponse_PartitionDescription{
			LogStartOffset: int64(i), HighWatermark: int64(i) + 10, SizeBytes: 1 << 40, SegmentCount: 3,
			RetentionSegmentsDeleted: 21, RetentionBytesReclaimed: 22, CompactionRuns: 23, CompactionRecordsDropped: 24,
		})
	}
	t.Traffic.RecordsProduced.Add(5)
	return backend.Survey{Topics: []backend.TopicSurvey{t}}
}

// What is written is what Prometheus reads.
func TestPrometheusReadsIt(t *testing.T) {
	s := survey(3)
	s.Topics[0].Partitions[1] = nil
	s.Topics[0].Conditions = map[int32]backend.Condition{2: {State: backend.NoSpace}, 1: {State: backend.Unreachable}}
	odd := "a\"b\\c\nd é"
	s.Groups = []backend.GroupSurvey{
		{Group: odd, Topic: "orders", Partition: 2, Committed: 7, Lag: 5},
		{Group: "g", Topic: "orders", Partition: 1, Committed: 7, Lag: -1},
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(exposition.AppendSurvey(nil, s)))
	require.NoError(t, err)
	require.Len(t, families, 15)
	unsound := families["sluice_partition_unsound"].GetMetric()
	require.Len(t, unsound, 2)
	require.Equal(t, "1", unsound[0].GetLabel()[0].GetValue())
	require.Equal(t, "unreachable", unsound[0].GetLabel()[1].GetValue())
	require.Equal(t, "no_space", unsound[1].GetLabel()[1].GetValue())
	require.Len(t, families["es_partition_end_offset"].GetMetric(), 2, "nothing is shown of what is not known")
	require.InDelta(t, 12, families["es_partition_end_offset"].GetMetric()[1].GetGauge().GetValue(), 0)
	require.InDelta(t, 5, families["es_topic_records_produced_total"].GetMetric()[0].GetCounter().GetValue(), 0)
	for name, want := range map[string]float64{
		"es_retention_segments_deleted_total": 21, "es_retention_bytes_reclaimed_total": 22,
		"es_compaction_runs_total": 23, "es_compaction_records_dropped_total": 24,
	} {
		require.Len(t, families[name].GetMetric(), 2)
		require.InDelta(t, want, families[name].GetMetric()[0].GetCounter().GetValue(), 0, name)
	}
	require.Len(t, families["es_group_committed_offset"].GetMetric(), 2)
	lag := families["es_group_lag"].GetMetric()
	require.Len(t, lag, 1)
	require.Equal(t, odd, lag[0].GetLabel()[0].GetValue())
}

func BenchmarkTenThousandPartitions(b *testing.B) {
	s := survey(10_000)
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = exposition.AppendSurvey(out[:0], s)
	}
	b.SetBytes(int64(len(out)))
}
