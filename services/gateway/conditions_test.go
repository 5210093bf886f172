package gateway_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/clustertest"
)

// What is the matter with a partition stands beside its numbers, and the others are
// shown as ever; so do the admin routes and the metrics.
func TestConditionsOfPartitions(t *testing.T) {
	s := startOn(t, clustertest.New(t, "a"))
	s.steps(t, create("t", "3"), produce(`{"records":[{"value":"x","partition":0},{"value":"x","partition":1},{"value":"x","partition":2}]}`, 200,
		`{"results":[{"partition":0,"offset":0},{"partition":1,"offset":0},{"partition":2,"offset":0}]}`))
	sound := func(id string) string {
		return `{"id":` + id + `,"start_offset":0,"end_offset":1,"segment_count":1,"size_bytes":69,"leader":"a","leader_epoch":1}`
	}
	silent := func(id, state, reason string) string {
		return `{"id":` + id + `,"start_offset":0,"end_offset":0,"segment_count":0,"size_bytes":0,"leader":"","leader_epoch":-1,` +
			`"state":"` + state + `","error":"` + reason + `"}`
	}
	const config = `"config":{"retention_ms":604800000,"retention_bytes":null,"cleanup_policy":"delete","segment_bytes":1073741824,"tombstone_retention_ms":86400000}}`
	shown := func(partitions ...string) step {
		return step{"GET", "/topics/t", "", 200, `{"name":"t","partitions":[` + strings.Join(partitions, ",") + `],` + config}
	}
	refuse := func(partition int32, code storagev1.ErrorCode, message string) {
		s.Storage["a"].Refuse(partition, &storagev1.PartitionError{Code: code, Message: message})
	}
	s.steps(t, shown(sound("0"), sound("1"), sound("2")))

	refuse(0, storagev1.ErrorCode_ERROR_CODE_DAMAGED, "the replica on node a is damaged")
	refuse(2, storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED, "the disk of node a is read-only")
	s.steps(t, shown(silent("0", "damaged", "the replica on node a is damaged"), sound("1"),
		silent("2", "failed", "the disk of node a is read-only")))

	refuse(1, storagev1.ErrorCode_ERROR_CODE_DAMAGED, "the replica on node a is damaged")
	raft := s.do(t, "GET", "/raft", "").body
	require.Equal(t, 1, strings.Count(raft, `"error":"the replica on node a is damaged"`), raft)
	require.Equal(t, 1, strings.Count(raft, `"error":`), raft)

	refuse(1, storagev1.ErrorCode_ERROR_CODE_DAMAGED, "the replica on node a is damaged")
	metrics := s.do(t, "GET", "/metrics", "").body
	require.Contains(t, metrics, `sluice_partition_unsound{partition="1",state="damaged",topic="t"} 1`)
	require.Equal(t, 1, strings.Count(metrics, "sluice_partition_unsound{"))
	require.NotContains(t, metrics, `es_partition_end_offset{partition="1",topic="t"}`)

	refuse(1, storagev1.ErrorCode_ERROR_CODE_DAMAGED, "the replica on node a is damaged")
	s.steps(t, step{"POST", "/admin/reset-offsets", `{"topic":"t"}`, 503,
		`{"error":"damaged, partition 1 of topic \"t\": the replica on node a is damaged"}`})

	// The numbers of one that is read are its own.
	s.Storage["a"].SetFull()
	full := strings.ReplaceAll(sound("0"), `}`, `,"state":"no_space","error":"no space left on the disk of node a"}`)
	s.steps(t, shown(full, strings.Replace(full, `"id":0`, `"id":1`, 1), strings.Replace(full, `"id":0`, `"id":2`, 1)))
	metrics = s.do(t, "GET", "/metrics", "").body
	require.Contains(t, metrics, `sluice_partition_unsound{partition="2",state="no_space",topic="t"} 1`)
	require.Contains(t, metrics, `es_partition_end_offset{partition="2",topic="t"} 1`)

	// So it is over gRPC.
	conn, err := grpc.NewClient(s.service.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	topic, err := logv1.NewTopicServiceClient(conn).GetTopic(t.Context(), &logv1.GetTopicRequest{Name: "t"})
	require.NoError(t, err)
	require.Equal(t, "no_space", topic.GetPartitions()[2].GetState())
	require.Equal(t, "no space left on the disk of node a", topic.GetPartitions()[2].GetError())
	require.Equal(t, int64(1), topic.GetPartitions()[2].GetEndOffset())
}

// A node that cannot be reached hides no partition of another's.
func TestUnreachablePartitionsAreShown(t *testing.T) {
	s := start(t)
	s.steps(t, create("t", "2"), produce(`{"records":[{"value":"x","partition":0},{"value":"x","partition":1}]}`, 200,
		`{"results":[{"partition":0,"offset":0},{"partition":1,"offset":0}]}`))
	hasty := s.hasty(t)
	s.SetDown("a", true)
	got := hasty.do(t, "GET", "/topics/t", "")
	require.Equal(t, 200, got.status)
	require.Contains(t, got.body, `"partitions":[{"id":0,"start_offset":0,"end_offset":0,"segment_count":0,"size_bytes":0,"leader":"","leader_epoch":-1,`+
		`"state":"unreachable","error":"node a does not answer"},`+
		`{"id":1,"start_offset":0,"end_offset":1,"segment_count":1,"size_bytes":69,"leader":"b","leader_epoch":1}]`)
	metrics := s.do(t, "GET", "/metrics", "").body
	require.Contains(t, metrics, `sluice_partition_unsound{partition="0",state="unreachable",topic="t"} 1`)
	require.Equal(t, 1, strings.Count(metrics, "sluice_partition_unsound{"))

	s.SetDown("a", false)
	s.Storage["a"].Refuse(0, &storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE},
		&storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE})
	require.NotContains(t, s.do(t, "GET", "/topics/t", "").body, "state", "that is over before patience is")
}
