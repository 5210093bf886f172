package topicconf_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/partitioner"
	"github.com/sluiceio/sluice/services/gateway/internal/topicconf"
	"github.com/sluiceio/sluice/services/kit/errs"
)

func TestToKafkaTakesWhatIsSet(t *testing.T) {
	set, err := topicconf.ToKafka(nil)
	require.NoError(t, err)
	require.Empty(t, set)

	given := &logv1.TopicConfig{
		RetentionMs: proto.Int64(-1), RetentionBytes: proto.Int64(5), CleanupPolicy: proto.String("compact,delete"),
		SegmentBytes: proto.Int64(1024), TombstoneRetentionMs: proto.Int64(0),
		Kafka: map[string]string{"compression.type": "zstd"},
	}
	set, err = topicconf.ToKafka(given)
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"retention.ms": "-1", "retention.bytes": "5", "cleanup.policy": "compact,delete",
		"segment.bytes": "1024", "delete.retention.ms": "0", "compression.type": "zstd",
	}, set)
	require.True(t, proto.Equal(given, topicconf.Defaults{}.Resolve(set)))
}

func TestToKafkaRefusesAConfigGivenTwice(t *testing.T) {
	for _, c := range []*logv1.TopicConfig{
		{RetentionMs: proto.Int64(1), Kafka: map[string]string{"retention.ms": "1"}},
		{CleanupPolicy: proto.String("delete"), Kafka: map[string]string{"cleanup.policy": "delete"}},
	} {
		_, err := topicconf.ToKafka(c)
		require.Equal(t, errs.InvalidArgument, errs.KindOf(err))
		require.ErrorContains(t, err, "are the same config")
	}
}

func TestResolveShowsEveryField(t *testing.T) {
	got := topicconf.Defaults{SegmentBytes: 1 << 30}.Resolve(map[string]string{"max.message.bytes": "7"})
	require.True(t, proto.Equal(&logv1.TopicConfig{
		RetentionMs: proto.Int64(604800000), RetentionBytes: proto.Int64(-1), CleanupPolicy: proto.String("delete"),
		SegmentBytes: proto.Int64(1073741824), TombstoneRetentionMs: proto.Int64(86400000),
		Kafka: map[string]string{"max.message.bytes": "7"},
	}, got), "%v", got)
}

func TestWhatTheGatewayReads(t *testing.T) {
	require.False(t, topicconf.Compacted(nil))
	require.True(t, topicconf.Compacted(map[string]string{"cleanup.policy": "compact,delete"}))
	require.Equal(t, partitioner.FNV1a, topicconf.KeyHash(nil))
	require.Equal(t, partitioner.Murmur2, topicconf.KeyHash(map[string]string{"sluice.key.hash": "murmur2"}))
	_, limited := topicconf.MaxMessageBytes(nil)
	require.False(t, limited)
	limit, limited := topicconf.MaxMessageBytes(map[string]string{"max.message.bytes": "7"})
	require.True(t, limited)
	require.Equal(t, 7, limit)
}
