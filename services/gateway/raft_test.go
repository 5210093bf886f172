package gateway_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/clustertest"
)

func TestRaftShowsEveryReplica(t *testing.T) {
	s := start(t)
	const (
		a = `{"topic":"a","partition":0,"node":"a","role":"leader","term":1,"leader":"a","commit_index":0,"last_index":0,"replicas":[]}`
		b = `{"topic":"b","partition":0,"node":"a","role":"leader","term":1,"leader":"a","commit_index":0,"last_index":0,"replicas":[]}`
		c = `{"topic":"b","partition":1,"node":"b","role":"leader","term":1,"leader":"b","commit_index":0,"last_index":0,"replicas":[]}`
	)
	s.steps(t,
		step{"GET", "/raft", "", 200, `{"partitions":[]}`},
		create("b", "2"),
		create("a", "1"),
		step{"POST", "/topics/b/produce", `{"records":[{"value":"x","partition":1},{"value":"x","partition":0}]}`, 200,
			`{"results":[{"partition":1,"offset":0},{"partition":0,"offset":0}]}`},
		step{"POST", "/topics/a/produce", `{"records":[{"value":"x"}]}`, 200, `{"results":[{"partition":0,"offset":0}]}`},
		step{"GET", "/raft", "", 200, `{"partitions":[` + a + `,` + b + `,` + c + `]}`},
		step{"POST", "/raft", "", 405, `{"error":"POST is not allowed here, only GET"}`},
	)

	// What is left is shown when a node is gone, which is when one wants to see it.
	s.SetDown("a", true)
	s.steps(t, step{"GET", "/raft", "", 200, `{"partitions":[` + c + `]}`})
	require.Contains(t, s.log.String(), "no partitions for the state of Raft")
	s.SetDown("b", true)
	s.steps(t, step{"GET", "/raft", "", 503, `{"error":"node \"a\" does not answer"}`})
	s.SetDown("b", false)

	// Replicas of a topic that is on its way out have no name.
	s.steps(t,
		step{"DELETE", "/topics/b", "", 200, `{"name":"b","partitions":2}`},
		step{"GET", "/raft", "", 200, `{"partitions":[]}`},
	)
}

func TestRaftIsForAdministrators(t *testing.T) {
	cluster := clustertest.New(t, "a")
	s := startOn(t, cluster)
	cluster.Registry.Require(map[string]*registryv1.Principal{
		"esk_admin":  {Id: "key_1", Admin: true},
		"esk_writer": {Id: "key_2", Grants: []*registryv1.Grant{{Action: registryv1.Action_ACTION_WRITE, TopicPrefix: "*"}}},
	})
	for secret, want := range map[string]int{"esk_admin": 200, "esk_writer": 403, "esk_none": 401} {
		req := s.request(t, "GET", "/raft", "")
		req.Header.Set("X-Es-Key", secret)
		require.Equal(t, want, s.send(t, req).status, secret)
	}
}
