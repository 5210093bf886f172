package gateway_test

import "testing"

// The document's first session, answer for answer.
func TestFirstSession(t *testing.T) {
	start(t).steps(t,
		create("orders", "2"),
		step{"POST", "/topics/orders/produce", `{"records":[{"key":"user-1","value":"checkout"},{"key":"user-2","value":"signup"}]}`, 200,
			`{"results":[{"partition":0,"offset":0},{"partition":1,"offset":0}]}`},
		step{"GET", "/topics/orders/consume?partition=0&offset=0", "", 200,
			`{"records":[{"partition":0,"offset":0,"timestamp_ms":1763500000000,"key":"user-1","value":"checkout"}],"next_offset":1,"high_watermark":1}`},
		step{"POST", "/groups/analytics/commit", `{"topic":"orders","partition":0,"offset":1}`, 204, ""},
		step{"GET", "/groups/analytics/offsets", "", 200, `{"offsets":{"orders":{"0":1}}}`},
	)
}
