package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/clustertest"
)

func coldSegment(base, last int64) *storagev1.ListColdSegmentsResponse_ColdSegment {
	return &storagev1.ListColdSegmentsResponse_ColdSegment{
		BaseOffset: base, LastOffset: last, SizeBytes: 100, UploadedAtMs: 1_700_000_000_000, MaxTimestampMs: 1_600_000_000_000, Object: "o",
	}
}

func TestTieredListsWhatIsInColdStorage(t *testing.T) {
	cluster := clustertest.New(t, "a", "b")
	s := startOn(t, cluster)
	const rest = `"size_bytes":100,"uploaded_at_ms":1700000000000,"max_timestamp_ms":1600000000000,"object":"o"`
	s.steps(t,
		step{"GET", "/admin/tiered/t/0", "", 404, `{"error":"topic \"t\" does not exist"}`},
		create("t", "2"),
		step{"GET", "/admin/tiered/t/0", "", 200, `{"segments":[]}`},
		step{"GET", "/admin/tiered/t/2", "", 404, `{"error":"topic \"t\" has partitions 0 to 1, got 2"}`},
		step{"GET", "/admin/tiered/t/-1", "", 404, `{"error":"topic \"t\" has partitions 0 to 1, got -1"}`},
	)
	for _, path := range []string{"/admin/tiered/t/x", "/admin/tiered/t/99999999999"} {
		require.Equal(t, 400, s.send(t, s.request(t, "GET", path, "")).status, path)
	}
	for _, path := range []string{"/admin/tiered/t", "/admin/tiered", "/admin/tiered/t/0/1"} {
		require.Equal(t, 404, s.send(t, s.request(t, "GET", path, "")).status, path)
	}

	// Three make two answers of a node.
	cluster.Storage["a"].SetCold(0, 20, coldSegment(0, 9), coldSegment(10, 19), coldSegment(20, 29))
	s.steps(t,
		step{"GET", "/admin/tiered/t/0", "", 200, `{"segments":[` +
			`{"base_offset":0,"last_offset":9,` + rest + `,"local":false},` +
			`{"base_offset":10,"last_offset":19,` + rest + `,"local":false},` +
			`{"base_offset":20,"last_offset":29,` + rest + `,"local":true}]}`},
		step{"GET", "/admin/tiered/t/1", "", 200, `{"segments":[]}`},
		step{"POST", "/admin/tiered/t/0", "", 405, `{"error":"POST is not allowed here, only GET"}`},
	)

	// Whoever does not lead sends on to the leader.
	cluster.Storage["a"].Refuse(0, &storagev1.PartitionError{
		Code: storagev1.ErrorCode_ERROR_CODE_NOT_LEADER, Leader: &storagev1.LeaderHint{Node: "b"},
	})
	s.steps(t, step{"GET", "/admin/tiered/t/0", "", 200, `{"segments":[]}`})
	cluster.Storage["a"].Refuse(0, &storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_DAMAGED, Message: "bad"})
	s.steps(t, step{"GET", "/admin/tiered/t/0", "", 503, `{"error":"damaged, partition 0 of topic \"t\": bad"}`})
}

func TestTieredIsForAdministrators(t *testing.T) {
	cluster := clustertest.New(t, "a")
	s := startOn(t, cluster)
	cluster.Registry.Require(map[string]*registryv1.Principal{
		"esk_admin":  {Id: "key_1", Admin: true},
		"esk_writer": {Id: "key_2", Grants: []*registryv1.Grant{{Action: registryv1.Action_ACTION_WRITE, TopicPrefix: "*"}}},
	})
	// Nobody else learns whether the topic is there.
	for secret, want := range map[string]int{"esk_admin": 404, "esk_writer": 403, "esk_none": 401} {
		req := s.request(t, "GET", "/admin/tiered/t/0", "")
		req.Header.Set("X-Es-Key", secret)
		require.Equal(t, want, s.send(t, req).status, secret)
	}
}
