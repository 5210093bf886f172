package replica_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// A proposal is answered whatever happens to the log under the replica: a caller
// waits for it, and its bytes count against the node's memory until then.
func TestProposalIsAnsweredByALogThatIsClosed(t *testing.T) {
	s := newSim(t, 1, 1)
	n := s.nodes[0]
	require.NoError(t, n.r.Campaign())
	require.NoError(t, n.r.Run())
	require.True(t, n.r.View().Serves)
	require.NoError(t, n.log.Close(nil))

	answered := 0
	_ = n.r.Propose([]*replica.Proposal{{
		Batches: [][]byte{s.batch(1, 1)}, OwnerEpoch: replica.NoOwner,
		Done: func(result replica.Result) {
			answered++
			require.Error(t, result.Err)
		},
	}})
	if answered == 0 {
		require.Error(t, n.r.Run())
	}
	require.Equal(t, 1, answered)
}
