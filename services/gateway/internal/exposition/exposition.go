// Package exposition writes metrics in Prometheus's text format, version 0.0.4.
//
// The series of partitions are written straight from what the nodes tell: forty
// thousand of them, of ten thousand partitions, would cost the client library
// two orders of magnitude more to collect, sort and check at each scrape.
package exposition

import (
	"maps"
	"slices"
	"strconv"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
)

// AppendSurvey appends the series of topics and groups. Names and labels are
// documented; they must not change. Labels are sorted, as the client library has
// them.
func AppendSurvey(dst []byte, s backend.Survey) []byte {
	for _, series := range []struct {
		name, kind, help string
		value            func(*storagev1.DescribeResponse_PartitionDescription) int64
	}{
		{"es_partition_start_offset", "gauge", "First offset that can be read.", (*storagev1.DescribeResponse_PartitionDescription).GetLogStartOffset},
		{"es_partition_end_offset", "gauge", "Offset after the last record that can be read.", (*storagev1.DescribeResponse_PartitionDescription).GetHighWatermark},
		{"es_partition_size_bytes", "gauge", "Size of the partition's segments.", (*storagev1.DescribeResponse_PartitionDescription).GetSizeBytes},
		{"es_partition_segment_count", "gauge", "Number of segments.", func(d *storagev1.DescribeResponse_PartitionDescription) int64 { return int64(d.GetSegmentCount()) }},
		{"es_retention_segments_deleted_total", "counter", "Segments that retention has deleted.", (*storagev1.DescribeResponse_PartitionDescription).GetRetentionSegmentsDeleted},
		{"es_retention_bytes_reclaimed_total", "counter", "Bytes of segments that retention has deleted.", (*storagev1.DescribeResponse_PartitionDescription).GetRetentionBytesReclaimed},
		{"es_compaction_runs_total", "counter", "How often the partition was compacted.", (*storagev1.DescribeResponse_PartitionDescription).GetCompactionRuns},
		{"es_compaction_records_dropped_total", "counter", "Records that compaction has dropped.", (*storagev1.DescribeResponse_PartitionDescription).GetCompactionRecordsDropped},
	} {
		dst = appendHead(dst, series.name, series.kind, series.help)
		for _, t := range s.Topics {
			for i, d := range t.Partitions {
				if d != nil {
					dst = appendSample(dst, series.name, series.value(d), partition(int32(i)), label{"topic", t.Name})
				}
			}
		}
	}
	dst = appendHead(dst, "sluice_partition_unsound", "gauge", "1 for each partition with which something is wrong, by what it is.")
	for _, t := range s.Topics {
		for _, n := range slices.Sorted(maps.Keys(t.Conditions)) {
			dst = appendSample(dst, "sluice_partition_unsound", 1, partition(n), label{"state", string(t.Conditions[n].State)}, label{"topic", t.Name})
		}
	}
	for _, counter := range []struct {
		name, help string
		value      func(*backend.TopicTraffic) int64
	}{
		{"es_topic_records_produced_total", "Records written through this gateway.", func(t *backend.TopicTraffic) int64 { return t.RecordsProduced.Load() }},
		{"es_topic_bytes_produced_total", "Bytes of keys and values written through this gateway.", func(t *backend.TopicTraffic) int64 { return t.BytesProduced.Load() }},
		{"es_topic_records_consumed_total", "Records read through this gateway.", func(t *backend.TopicTraffic) int64 { return t.RecordsConsumed.Load() }},
		{"es_topic_bytes_consumed_total", "Bytes of keys and values read through this gateway.", func(t *backend.TopicTraffic) int64 { return t.BytesConsumed.Load() }},
	} {
		dst = appendHead(dst, counter.name, "counter", counter.help)
		for _, t := range s.Topics {
			dst = appendSample(dst, counter.name, counter.value(t.Traffic), label{"topic", t.Name})
		}
	}
	dst = appendHead(dst, "es_group_committed_offset", "gauge", "Next offset that the group will read.")
	for _, g := range s.Groups {
		dst = appendSample(dst, "es_group_committed_offset", g.Committed, label{"group", g.Group}, partition(g.Partition), label{"topic", g.Topic})
	}
	dst = appendHead(dst, "es_group_lag", "gauge", "Offsets between the committed one and the end.")
	for _, g := range s.Groups {
		if g.Lag >= 0 {
			dst = appendSample(dst, "es_group_lag", g.Lag, label{"group", g.Group}, partition(g.Partition), label{"topic", g.Topic})
		}
	}
	return dst
}

type label struct{ name, value string }

func partition(n int32) label { return label{"partition", strconv.Itoa(int(n))} }

func appendHead(dst []byte, name, kind, help string) []byte {
	dst = append(dst, "# HELP "...)
	dst = append(dst, name...)
	dst = append(dst, ' ')
	dst = append(dst, help...)
	dst = append(dst, "\n# TYPE "...)
	dst = append(dst, name...)
	dst = append(dst, ' ')
	dst = append(dst, kind...)
	return append(dst, '\n')
}

func appendSample(dst []byte, name string, value int64, labels ...label) []byte {
	dst = append(dst, name...)
	for i, l := range labels {
		if i == 0 {
			dst = append(dst, '{')
		} else {
			dst = append(dst, ',')
		}
		dst = append(dst, l.name...)
		dst = append(dst, '=', '"')
		dst = appendEscaped(dst, l.value)
		dst = append(dst, '"')
	}
	dst = append(dst, '}', ' ')
	dst = strconv.AppendInt(dst, value, 10)
	return append(dst, '\n')
}

func appendEscaped(dst []byte, value string) []byte {
	for i := range len(value) {
		switch c := value[i]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
