package common

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
)

func TestTopics(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		steps(t, api, []step{
			{method: "GET", path: "/topics", status: 200, want: `{"topics":[]}`},
			{method: "POST", path: "/topics", body: `{"name":"b","partitions":3,"config":{"retention_ms":86400000,"retention_bytes":null,"cleanup_policy":"compact,delete","segment_bytes":67108864,"tombstone_retention_ms":1000}}`,
				status: 201, want: `{"name":"b","partitions":3}`},
			{method: "GET", path: "/topics/b/config", status: 200,
				want: `{"retention_ms":86400000,"retention_bytes":null,"cleanup_policy":"compact,delete","segment_bytes":67108864,"tombstone_retention_ms":1000}`},
			{method: "PUT", path: "/topics/b/config", body: `{"retention_ms":null,"cleanup_policy":"delete"}`, status: 200,
				want: `{"retention_ms":null,"retention_bytes":null,"cleanup_policy":"delete","segment_bytes":67108864,"tombstone_retention_ms":1000}`},
			{name: "a bad field changes none", method: "PUT", path: "/topics/b/config", body: `{"retention_ms":5,"cleanup_policy":"keep"}`, status: 400},
			{method: "GET", path: "/topics/b/config", status: 200,
				want: `{"retention_ms":null,"retention_bytes":null,"cleanup_policy":"delete","segment_bytes":67108864,"tombstone_retention_ms":1000}`},
			{method: "POST", path: "/topics", body: `{"name":"a"}`, status: 201, want: `{"name":"a","partitions":1}`},
			{method: "GET", path: "/topics", status: 200, want: `{"topics":["a","b"]}`},
			{method: "DELETE", path: "/topics/a", status: 200, want: `{"name":"a","partitions":1}`},
			{method: "GET", path: "/topics", status: 200, want: `{"topics":["b"]}`},
			{method: "GET", path: "/topics/a", status: 404},
			{method: "GET", path: "/topics/a/consume?partition=0&offset=0", status: 404},
		})

		answer, err := api.Do(t.Context(), "GET", "/topics/b", nil)
		require.NoError(t, err)
		require.Equal(t, 200, answer.Status)
		var topic struct {
			Name       string
			Partitions []map[string]any
			Config     map[string]any
		}
		require.NoError(t, json.Unmarshal(answer.Body, &topic))
		require.Equal(t, "b", topic.Name)
		require.Len(t, topic.Partitions, 3)
		require.Subset(t, topic.Partitions[2], map[string]any{"id": 2.0, "start_offset": 0.0, "end_offset": 0.0})
		require.Contains(t, topic.Partitions[2], "segment_count")
		require.Contains(t, topic.Partitions[2], "size_bytes")
		require.Equal(t, "delete", topic.Config["cleanup_policy"])
	})
}

// TestTopicOfTheSameNameIsAnother: what was written to a deleted topic does not
// come back with its name.
func TestTopicOfTheSameNameIsAnother(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		again := []step{
			{method: "POST", path: "/topics", body: `{"name":"t"}`, status: 201, want: `{"name":"t","partitions":1}`},
			{method: "GET", path: "/topics/t/consume?partition=0&offset=0", status: 200, want: `{"records":[],"next_offset":0,"high_watermark":0}`},
			{method: "GET", path: "/groups/g/offsets", status: 200, want: `{"offsets":{}}`},
			{method: "POST", path: "/topics/t/produce", body: `{"records":[{"value":"x"}]}`, status: 200, want: `{"results":[{"partition":0,"offset":0}]}`},
			{method: "POST", path: "/groups/g/commit", body: `{"topic":"t","partition":0,"offset":1}`, status: 204},
			{method: "DELETE", path: "/topics/t", status: 200, want: `{"name":"t","partitions":1}`},
		}
		steps(t, api, again)
		steps(t, api, again)
		cluster.Restart(t, s)
		steps(t, api, []step{{method: "GET", path: "/topics", status: 200, want: `{"topics":[]}`}})
		steps(t, api, again)
	})
}

func TestBadTopics(t *testing.T) {
	create := func(name, body string) step {
		return step{name: name, method: "POST", path: "/topics", body: body, status: 400}
	}
	bad := []step{
		create("no JSON", `name=orders`),
		create("half an object", `{"name":"t"`),
		create("trailing garbage", `{"name":"t"} x`),
		create("two objects", `{"name":"t"}{"name":"t"}`),
		create("an array", `[]`),
		create("a name that is a number", `{"name":5}`),
		create("no name", `{"partitions":1}`),
		create("partitions as text", `{"name":"t","partitions":"1"}`),
		create("partitions with a fraction", `{"name":"t","partitions":1.5}`),
		create("partitions that are no integer", `{"name":"t","partitions":1.0}`),
		create("no partitions", `{"name":"t","partitions":0}`),
		create("negative partitions", `{"name":"t","partitions":-1}`),
		create("too many partitions", `{"name":"t","partitions":10001}`),
		create("partitions beyond 32 bits", `{"name":"t","partitions":4294967297}`),
		create("config that is no object", `{"name":"t","config":5}`),
		create("unknown policy", `{"name":"t","config":{"cleanup_policy":"keep"}}`),
		create("retention as text", `{"name":"t","config":{"retention_ms":"5"}}`),
		create("segments of no bytes", `{"name":"t","config":{"segment_bytes":0}}`),
		create("unknown config", `{"name":"t","config":{"no.such.config":"1"}}`),
		{name: "no body", method: "POST", path: "/topics", status: 400},
	}
	for _, name := range []string{"", ".", "..", "a b", "a/b", "a\\u0000", "é", "a:b", strings.Repeat("x", 201)} {
		bad = append(bad, create(fmt.Sprintf("name %.10q", name), fmt.Sprintf(`{"name":"%s"}`, name)))
	}
	absent := []step{
		{method: "GET", path: "/topics/t", status: 404},
		{method: "GET", path: "/topics/t/config", status: 404},
		{method: "PUT", path: "/topics/t/config", body: `{"retention_ms":5}`, status: 404},
		{method: "DELETE", path: "/topics/t", status: 404},
		{method: "GET", path: "/nothing", status: 404},
		{method: "PATCH", path: "/topics", body: `{}`, status: 405},
		{method: "DELETE", path: "/healthz", status: 405},
	}
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		steps(t, api, bad)
		steps(t, api, absent)
		steps(t, api, []step{
			{method: "GET", path: "/topics", status: 200, want: `{"topics":[]}`},
			{method: "POST", path: "/topics", body: fmt.Sprintf(`{"name":%q,"unknown":{"a":[1,{}]}}`, strings.Repeat("x", 200)),
				status: 201, want: fmt.Sprintf(`{"name":%q,"partitions":1}`, strings.Repeat("x", 200))},
		})
	})
}
