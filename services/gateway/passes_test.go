package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
)

func TestPassesRunOnEveryNode(t *testing.T) {
	s := start(t)
	s.steps(t,
		step{"POST", "/admin/run-retention", "", 204, ""},
		step{"POST", "/admin/run-compaction", "", 204, ""},
		step{"GET", "/admin/run-compaction", "", 405, `{"error":"GET is not allowed here, only POST"}`},
	)
	want := []storagev1.Pass{storagev1.Pass_PASS_RETENTION, storagev1.Pass_PASS_COMPACTION}
	for _, node := range []string{"a", "b"} {
		require.Equal(t, want, s.Storage[node].Passes(), "node %s", node)
	}

	// One bad partition fails nothing; the log has it.
	s.Storage["a"].Refuse(7, &storagev1.PartitionError{Message: "the replica is damaged"})
	s.steps(t, step{"POST", "/admin/run-retention", "", 204, ""})
	require.Contains(t, s.log.String(), "the replica is damaged")

	// A node that does not finish does; the others are done first.
	s.Storage["a"].FailBefore(status.Error(codes.Unavailable, "stopping"))
	before := len(s.Storage["b"].Passes())
	s.steps(t, step{"POST", "/admin/run-compaction", "", 503, `{"error":"node \"a\" has not finished"}`})
	require.Len(t, s.Storage["b"].Passes(), before+1)
}
