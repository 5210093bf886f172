package common

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
)

// TestRaft: role, term, leader and replication of every partition, and of the
// system's own.
func TestRaft(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		steps(t, api, session)
		answer, err := api.Do(t.Context(), "GET", "/raft", nil)
		require.NoError(t, err)
		require.Equal(t, 200, answer.Status, "%s", answer.Body)
		var raft struct {
			Partitions []struct {
				Topic       string `json:"topic"`
				Partition   int    `json:"partition"`
				Node        string `json:"node"`
				Role        string `json:"role"`
				Term        int64  `json:"term"`
				Leader      string `json:"leader"`
				CommitIndex int64  `json:"commit_index"`
				LastIndex   int64  `json:"last_index"`
				Replicas    []struct {
					Node       string `json:"node"`
					Role       string `json:"role"`
					MatchIndex int64  `json:"match_index"`
					NextIndex  int64  `json:"next_index"`
					State      string `json:"state"`
				} `json:"replicas"`
			} `json:"partitions"`
		}
		require.NoError(t, json.Unmarshal(answer.Body, &raft))
		of := map[string]int{}
		for _, p := range raft.Partitions {
			of[p.Topic]++
			if p.Topic != "orders" {
				continue
			}
			require.Equal(t, of["orders"]-1, p.Partition, "sorted")
			require.Equal(t, "leader", p.Role)
			require.Positive(t, p.Term)
			require.NotEmpty(t, p.Node)
			require.Equal(t, p.Node, p.Leader)
			require.Positive(t, p.CommitIndex)
			require.GreaterOrEqual(t, p.LastIndex, p.CommitIndex)
			require.Len(t, p.Replicas, 1)
			require.Equal(t, p.Node, p.Replicas[0].Node)
			require.Equal(t, p.LastIndex, p.Replicas[0].MatchIndex)
			require.Equal(t, p.LastIndex+1, p.Replicas[0].NextIndex)
		}
		require.Equal(t, 2, of["orders"])
		require.Greater(t, len(of), 1, "the topics that offsets are kept in, too")
	})
}
