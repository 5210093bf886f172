package common

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/sluiceio/sluice/integration/cluster"
)

const (
	orderV1 = `{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`
	orderV2 = `{"type":"object","properties":{"id":{"type":"integer"},"note":{"type":"string"}},"required":["id"]}`
	// It asks for a phone number, which old records do not have.
	orderPhone = `{"type":"object","properties":{"id":{"type":"integer"},"phone":{"type":"string"}},"required":["id","phone"]}`
	orderNoID  = `{"type":"object","properties":{"note":{"type":"string"}}}`
)

func register(subject, schema string) string {
	text, _ := json.Marshal(schema)
	return fmt.Sprintf(`{"subject":%q,"type":"json_schema","schema":%s}`, subject, text)
}

func registered(id, version int, subject, schema string) string {
	text, _ := json.Marshal(schema)
	return fmt.Sprintf(`{"id":%d,"subject":%q,"version":%d,"type":"json_schema","schema":%s}`, id, subject, version, text)
}

// TestSchemas is "Schema registry" of the document.
func TestSchemas(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		steps(t, api, []step{
			{method: "GET", path: "/schemas", status: 200, want: `{"schemas":[]}`},
			{method: "POST", path: "/schemas", body: register("orders-value", orderV1), status: 200, want: `{"id":1}`},
			{name: "the same again", method: "POST", path: "/schemas", body: register("orders-value", " "+orderV1), status: 200, want: `{"id":1}`},
			{name: "the same elsewhere", method: "POST", path: "/schemas", body: register("orders-key", orderV1), status: 200, want: `{"id":2}`},
			{name: "an added required field", method: "POST", path: "/schemas", body: register("orders-value", orderPhone), status: 400,
				want: `{"error":"backward-incompatible: new schema adds required field 'phone'"}`},
			{name: "a new version", method: "POST", path: "/schemas", body: register("orders-value", orderV2), status: 200, want: `{"id":3}`},
			{name: "a removed property", method: "POST", path: "/schemas", body: register("orders-value", orderNoID), status: 400,
				want: `{"error":"backward-incompatible: new schema removes property 'id'"}`},
			{method: "GET", path: "/schemas/3", status: 200, want: registered(3, 2, "orders-value", orderV2)},
			{method: "GET", path: "/subjects/orders-value/versions/latest", status: 200, want: registered(3, 2, "orders-value", orderV2)},
			{method: "GET", path: "/subjects/orders-key/versions/latest", status: 200, want: registered(2, 1, "orders-key", orderV1)},
			{method: "GET", path: "/schemas/4", status: 404},
			{method: "GET", path: "/schemas/0", status: 400},
			{method: "GET", path: "/schemas/x", status: 400},
			{method: "GET", path: "/subjects/nothing/versions/latest", status: 404},
			{name: "no JSON", method: "POST", path: "/schemas", body: register("orders-value", "{"), status: 400},
			{name: "no schema", method: "POST", path: "/schemas", body: register("orders-value", `{"type":"text"}`), status: 400},
			{name: "no subject", method: "POST", path: "/schemas", body: register("", orderV1), status: 400},
			{name: "no type", method: "POST", path: "/schemas", body: `{"subject":"a","schema":"{}"}`, status: 400},
			{name: "whether it could be", method: "POST", path: "/subjects/orders-value/check", body: register("orders-value", orderPhone), status: 200,
				want: `{"compatible":false,"messages":["backward-incompatible: new schema adds required field 'phone'","backward-incompatible: new schema removes property 'note'"]}`},
		})
		all := step{method: "GET", path: "/schemas", status: 200, want: `{"schemas":[` +
			registered(2, 1, "orders-key", orderV1) + "," + registered(1, 1, "orders-value", orderV1) + "," + registered(3, 2, "orders-value", orderV2) + `]}`}
		steps(t, api, []step{all})
		cluster.Restart(t, s)
		steps(t, api, []step{
			all,
			{name: "an id after a restart", method: "POST", path: "/schemas", body: register("users-value", orderV1), status: 200, want: `{"id":4}`},
		})
	})
}
