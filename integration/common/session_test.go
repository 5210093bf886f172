package common

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
)

// session is "A first session" of the document.
var session = []step{
	{method: "POST", path: "/topics", body: `{"name":"orders","partitions":2}`,
		status: 201, want: `{"name":"orders","partitions":2}`},
	{method: "POST", path: "/topics/orders/produce",
		body:   `{"records":[{"key":"user-1","value":"checkout"},{"key":"user-2","value":"signup"}]}`,
		status: 200, want: `{"results":[{"partition":0,"offset":0},{"partition":1,"offset":0}]}`},
	{method: "GET", path: "/topics/orders/consume?partition=0&offset=0",
		status: 200, want: `{"records":[{"partition":0,"offset":0,"timestamp_ms":TIME,"key":"user-1","value":"checkout"}],"next_offset":1,"high_watermark":1}`},
	{method: "POST", path: "/groups/analytics/commit", body: `{"topic":"orders","partition":0,"offset":1}`,
		status: 204},
	{method: "GET", path: "/groups/analytics/offsets",
		status: 200, want: `{"offsets":{"orders":{"0":1}}}`},
}

// after is what can be seen once the session is over.
var after = []step{
	{method: "GET", path: "/topics", status: 200, want: `{"topics":["orders"]}`},
	{method: "GET", path: "/healthz", status: 200, want: `{"status":"ok","topics":1}`},
	{method: "GET", path: "/topics/orders/consume?partition=1&offset=0",
		status: 200, want: `{"records":[{"partition":1,"offset":0,"timestamp_ms":TIME,"key":"user-2","value":"signup"}],"next_offset":1,"high_watermark":1}`},
	{method: "GET", path: "/groups/analytics/offsets", status: 200, want: `{"offsets":{"orders":{"0":1}}}`},
	{method: "GET", path: "/groups/analytics/consume?topic=orders&partition=0",
		status: 200, want: `{"records":[],"next_offset":1,"high_watermark":1}`},
	{method: "GET", path: "/groups/another/consume?topic=orders&partition=0&encoding=base64",
		status: 200, want: `{"records":[{"partition":0,"offset":0,"timestamp_ms":TIME,"key":"user-1","value":"Y2hlY2tvdXQ="}],"next_offset":1,"high_watermark":1}`},
	{method: "GET", path: "/groups/another/offsets", status: 200, want: `{"offsets":{}}`},
	{method: "POST", path: "/topics", body: `{"name":"orders","partitions":2}`, status: 409},
}

func TestFirstSession(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		steps(t, api, session)
		steps(t, api, after)
		cluster.Restart(t, s)
		steps(t, api, after)
		steps(t, api, []step{
			{method: "POST", path: "/topics/orders/produce", body: `{"records":[{"key":"user-1","value":"again"}]}`,
				status: 200, want: `{"results":[{"partition":0,"offset":1}]}`},
		})
	})
}

func TestFirstSessionSurvivesKill(t *testing.T) {
	p := cluster.NewProcess(t, cluster.Options{})
	cluster.Start(t, p)
	api := connect(t, p.HTTP())
	steps(t, api, session)
	p.Kill()
	cluster.Start(t, p)
	steps(t, api, after)
}

func TestSecondProcessOnOneDataDirectoryIsRefused(t *testing.T) {
	first := cluster.NewProcess(t, cluster.Options{})
	cluster.Start(t, first)
	api := connect(t, first.HTTP())
	steps(t, api, session)

	second := cluster.NewProcess(t, cluster.Options{DataDir: first.DataDir()})
	require.NoError(t, second.Launch())
	require.Error(t, second.Wait(t.Context()))
	require.Contains(t, second.Log(), first.DataDir())
	steps(t, api, after)
}
