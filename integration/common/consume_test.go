package common

import (
	"testing"

	"github.com/sluiceio/sluice/integration/cluster"
)

func TestBadReads(t *testing.T) {
	get := func(path string, status int) step { return step{method: "GET", path: path, status: status} }
	commit := func(name, body string, status int) step {
		return step{name: name, method: "POST", path: "/groups/g/commit", body: body, status: status}
	}
	bad := []step{
		get("/topics/t/consume", 400),
		get("/topics/t/consume?partition=0", 400),
		get("/topics/t/consume?offset=0", 400),
		get("/topics/t/consume?partition=x&offset=0", 400),
		get("/topics/t/consume?partition=-1&offset=0", 400),
		get("/topics/t/consume?partition=2&offset=0", 400),
		get("/topics/t/consume?partition=99999999999&offset=0", 400),
		get("/topics/t/consume?partition=0&offset=-1", 400),
		get("/topics/t/consume?partition=0&offset=1.0", 400),
		get("/topics/t/consume?partition=0&offset=9223372036854775808", 400),
		get("/topics/t/consume?partition=0&offset=0&max_records=x", 400),
		get("/topics/t/consume?partition=0&offset=0&max_records=-1", 400),
		get("/topics/t/consume?partition=0&offset=0&max_bytes=-1", 400),
		get("/topics/t/consume?partition=0&offset=0&encoding=hex", 400),
		get("/topics/none/consume?partition=0&offset=0", 404),
		get("/groups/g/consume?partition=0", 400),
		get("/groups/g/consume?topic=t", 400),
		get("/groups/g/consume?topic=t&partition=2", 400),
		get("/groups/g/consume?topic=none&partition=0", 404),
		commit("no JSON", `offset=1`, 400),
		commit("no topic", `{"partition":0,"offset":1}`, 400),
		commit("no partition", `{"topic":"t","offset":1}`, 400),
		commit("no offset", `{"topic":"t","partition":0}`, 400),
		commit("offset as text", `{"topic":"t","partition":0,"offset":"1"}`, 400),
		commit("negative offset", `{"topic":"t","partition":0,"offset":-1}`, 400),
		commit("unknown partition", `{"topic":"t","partition":2,"offset":1}`, 400),
		commit("unknown topic", `{"topic":"none","partition":0,"offset":1}`, 404),
	}
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		steps(t, api, []step{
			{method: "POST", path: "/topics", body: `{"name":"t","partitions":2}`, status: 201, want: `{"name":"t","partitions":2}`},
			{method: "POST", path: "/topics/t/produce", body: `{"records":[{"value":"x","partition":0}]}`, status: 200, want: `{"results":[{"partition":0,"offset":0}]}`},
		})
		steps(t, api, bad)
		steps(t, api, []step{
			{name: "far past the end", method: "GET", path: "/topics/t/consume?partition=0&offset=9223372036854775807", status: 200,
				want: `{"records":[],"next_offset":9223372036854775807,"high_watermark":1}`},
			{name: "at the end", method: "GET", path: "/topics/t/consume?partition=0&offset=1", status: 200,
				want: `{"records":[],"next_offset":1,"high_watermark":1}`},
			{name: "nothing was committed", method: "GET", path: "/groups/g/offsets", status: 200, want: `{"offsets":{}}`},
		})
	})
}

// TestValueThatIsNoText: a value that is not UTF-8 never spoils a read.
func TestValueThatIsNoText(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		produceOverGRPC(t, s.GRPC(), "t", "a\xffb")
		steps(t, connect(t, s.HTTP()), []step{
			{method: "GET", path: "/topics/t/consume?partition=0&offset=0", status: 200,
				want: "{\"records\":[{\"partition\":0,\"offset\":0,\"timestamp_ms\":TIME,\"key\":null,\"value\":\"a\uFFFDb\"}],\"next_offset\":1,\"high_watermark\":1}"},
			{method: "GET", path: "/topics/t/consume?partition=0&offset=0&encoding=base64", status: 200,
				want: `{"records":[{"partition":0,"offset":0,"timestamp_ms":TIME,"key":null,"value":"Yf9i"}],"next_offset":1,"high_watermark":1}`},
		})
	})
}
