package common

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceio/sluice/integration/cluster"
)

func TestBadProduce(t *testing.T) {
	produce := func(name, body string) step {
		return step{name: name, method: "POST", path: "/topics/t/produce", body: body, status: 400}
	}
	bad := []step{
		produce("no JSON", `hello`),
		produce("half an array", `{"records":[{"value":"x"}`),
		produce("trailing garbage", `{"records":[{"value":"x"}]}]`),
		produce("records that are text", `{"records":"x"}`),
		produce("a record that is text", `{"records":["x"]}`),
		produce("a value that is a number", `{"records":[{"value":5}]}`),
		produce("a value that is an object", `{"records":[{"value":{}}]}`),
		produce("a key that is a number", `{"records":[{"key":5,"value":"x"}]}`),
		produce("a partition that is text", `{"records":[{"value":"x","partition":"0"}]}`),
		produce("a partition that is no integer", `{"records":[{"value":"x","partition":0.0}]}`),
		produce("a negative partition", `{"records":[{"value":"x","partition":-1}]}`),
		produce("a partition that is not there", `{"records":[{"value":"x","partition":2}]}`),
		produce("a partition beyond 32 bits", `{"records":[{"value":"x","partition":4294967296}]}`),
		produce("one bad record after good ones", `{"records":[{"value":"x","partition":0},{"value":"x","partition":1},{"value":"x","partition":2}]}`),
		produce("one bad record before good ones", `{"records":[{"value":5},{"value":"x"}]}`),
		produce("one record over the limit", fmt.Sprintf(`{"records":[{"value":"x"},{"value":%q}]}`, strings.Repeat("x", 2000))),
		produce("a deep unknown field", `{"records":[{"value":"x","y":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`}]}`),
		{name: "a body over the limit", method: "POST", path: "/topics/t/produce", status: 413,
			body: `{"records":[` + strings.Repeat(`{"value":"0123456789"},`, 1000) + `{"value":"x"}]}`},
		{method: "POST", path: "/topics/none/produce", body: `{"records":[{"value":"x"}]}`, status: 404},
		{method: "GET", path: "/topics/t/produce", status: 405},
	}
	o := cluster.Options{Flags: []string{"--max-record-bytes", "1024", "--max-request-body-bytes", "16384"}}
	cluster.OnEach(t, o, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		steps(t, api, []step{{method: "POST", path: "/topics", body: `{"name":"t","partitions":2}`, status: 201, want: `{"name":"t","partitions":2}`}})
		steps(t, api, bad)
		steps(t, api, []step{
			{name: "nothing was written", method: "GET", path: "/topics/t/consume?partition=0&offset=0", status: 200, want: `{"records":[],"next_offset":0,"high_watermark":0}`},
			{name: "nothing was written", method: "GET", path: "/topics/t/consume?partition=1&offset=0", status: 200, want: `{"records":[],"next_offset":0,"high_watermark":0}`},
			{name: "unknown fields are skipped, of equal names the last counts", method: "POST", path: "/topics/t/produce",
				body:   `{"x":[{}],"records":[{"value":"a","value":"b","partition":1,"y":{"z":[1,null]}},{"key":"","value":null,"partition":1}]}`,
				status: 200, want: `{"results":[{"partition":1,"offset":0},{"partition":1,"offset":1}]}`},
			{method: "GET", path: "/topics/t/consume?partition=1&offset=0", status: 200,
				want: `{"records":[{"partition":1,"offset":0,"timestamp_ms":TIME,"key":null,"value":"b"},{"partition":1,"offset":1,"timestamp_ms":TIME,"key":"","value":""}],"next_offset":2,"high_watermark":2}`},
		})
	})
}

func TestKeysStayInTheirPartition(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		steps(t, api, []step{
			{method: "POST", path: "/topics", body: `{"name":"t","partitions":2}`, status: 201, want: `{"name":"t","partitions":2}`},
			{method: "POST", path: "/topics/t/produce", body: `{"records":[{"key":"user-2","value":"a"},{"key":"user-1","value":"b"},{"key":"user-2","value":"c"},{"key":"user-2","value":"d","partition":0}]}`,
				status: 200, want: `{"results":[{"partition":1,"offset":0},{"partition":0,"offset":0},{"partition":1,"offset":1},{"partition":0,"offset":1}]}`},
			{method: "GET", path: "/topics/t/consume?partition=1&offset=1&max_records=1", status: 200,
				want: `{"records":[{"partition":1,"offset":1,"timestamp_ms":TIME,"key":"user-2","value":"c"}],"next_offset":2,"high_watermark":2}`},
			{method: "GET", path: "/topics/t/consume?partition=0&offset=0&max_records=1", status: 200,
				want: `{"records":[{"partition":0,"offset":0,"timestamp_ms":TIME,"key":"user-1","value":"b"}],"next_offset":1,"high_watermark":2}`},
		})
	})
}
