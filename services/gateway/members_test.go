package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
)

func TestMembersOfGroups(t *testing.T) {
	s := start(t)
	const first, second = "m_00000000000000000000000000000001", "m_00000000000000000000000000000002"
	post := func(what, body string, status int, want string) step {
		return step{"POST", "/groups/g/" + what, body, status, want}
	}
	member := func(id string) string { return `{"member_id":"` + id + `"}` }
	s.steps(t,
		create("orders", "2"), create("billing", "1"),
		post("heartbeat", `{"member_id":"m_none","generation":1}`, 200, `{"status":"unknown_member","current_generation":0}`),
		post("join", `{"topics":["orders","billing"],"member_id":null}`, 200,
			`{"member_id":"`+first+`","generation":1,"assignment":[{"topic":"billing","partition":0},{"topic":"orders","partition":0},{"topic":"orders","partition":1}]}`),
		post("heartbeat", `{"member_id":"`+first+`","generation":1}`, 200, `{"status":"ok","generation":1}`),
		post("join", `{"topics":["orders"]}`, 200,
			`{"member_id":"`+second+`","generation":2,"assignment":[{"topic":"orders","partition":0}]}`),
		post("heartbeat", `{"member_id":"`+first+`","generation":1}`, 200, `{"status":"rebalance_required","current_generation":2}`),
		step{"GET", "/groups/g/assignment?member_id=" + first, "", 200,
			`{"generation":2,"assignment":[{"topic":"billing","partition":0},{"topic":"orders","partition":1}]}`},
		post("join", `{"topics":["orders"],"member_id":"`+second+`"}`, 200,
			`{"member_id":"`+second+`","generation":2,"assignment":[{"topic":"orders","partition":0}]}`),
		post("leave", member(first), 204, ""),
		post("leave", member(first), 204, ""),
		post("leave", member("m_none"), 204, ""),
		step{"POST", "/groups/none/leave", member("m_none"), 204, ""},
		post("heartbeat", `{"member_id":"`+first+`","generation":2}`, 200, `{"status":"unknown_member","current_generation":3}`),
		step{"GET", "/groups/g/assignment?member_id=" + first, "", 404, `{"error":"the group \"g\" has no member \"` + first + `\""}`},
		step{"GET", "/groups/none/assignment?member_id=" + first, "", 404, `{"error":"the group \"none\" has no member \"` + first + `\""}`},
	)
	s.Coordinator.Groups.Evict("g", second)
	s.steps(t,
		post("heartbeat", `{"member_id":"`+second+`","generation":3}`, 200, `{"status":"unknown_member","current_generation":4}`),
		post("join", `{"topics":["billing"],"member_id":"`+second+`"}`, 200,
			`{"member_id":"`+second+`","generation":5,"assignment":[{"topic":"billing","partition":0}]}`),
	)
}

func TestGroupsAreDeleted(t *testing.T) {
	s := start(t)
	s.steps(t,
		create("t", "1"),
		step{"DELETE", "/groups/g", "", 404, `{"error":"the group \"g\" does not exist"}`},
		step{"DELETE", "/groups/" + strings.Repeat("g", 250), "", 400, `{"error":"group must have at most 249 bytes, got 250"}`},
		step{"GET", "/groups/g", "", 405, `{"error":"GET is not allowed here, only DELETE"}`},
		step{"POST", "/groups/g/commit", `{"topic":"t","partition":0,"offset":3}`, 204, ""},
		step{"POST", "/groups/g/join", `{"topics":["t"],"member_id":"m"}`, 200, `{"member_id":"m","generation":1,"assignment":[{"topic":"t","partition":0}]}`},
		step{"DELETE", "/groups/g", "", 409, `{"error":"the group \"g\" has members"}`},
		step{"POST", "/groups/g/leave", `{"member_id":"m"}`, 204, ""},
		step{"GET", "/groups/g/offsets", "", 200, `{"offsets":{"t":{"0":3}}}`},
		step{"DELETE", "/groups/g", "", 204, ""},
		step{"GET", "/groups/g/offsets", "", 200, `{"offsets":{}}`},
		step{"DELETE", "/groups/g", "", 404, `{"error":"the group \"g\" does not exist"}`},
	)
}

func TestBadMembers(t *testing.T) {
	many := make([]string, 101)
	for i := range many {
		many[i] = `"t"`
	}
	post := func(what, body, want string, status int) step {
		return step{"POST", "/groups/g/" + what, body, status, `{"error":"` + want + `"}`}
	}
	s := start(t)
	s.Coordinator.AddInternal("__internal")
	s.steps(t,
		create("t", "1"),
		post("join", ``, `the body is empty, expected a JSON object`, 400),
		post("join", `{}`, `topics must be 1 to 100, got 0`, 400),
		post("join", `{"topics":[]}`, `topics must be 1 to 100, got 0`, 400),
		post("join", `{"topics":[`+strings.Join(many, ",")+`]}`, `topics must be 1 to 100, got 101`, 400),
		post("join", `{"topics":"t"}`, `topics must be a list, got a string`, 400),
		post("join", `{"topics":["t"],"member_id":""}`, `member_id must not be empty; leave it out to join anew`, 400),
		post("join", `{"topics":["t","none"]}`, `topic \"none\" does not exist`, 404),
		post("join", `{"topics":["__internal"]}`, `topic \"__internal\" does not exist`, 404),
		step{"POST", "/groups/" + strings.Repeat("g", 250) + "/join", `{"topics":["t"]}`, 400, `{"error":"group must have at most 249 bytes, got 250"}`},
		post("heartbeat", `{"generation":1}`, `member_id must be given`, 400),
		post("heartbeat", `{"member_id":"m"}`, `generation must be given`, 400),
		post("heartbeat", `{"member_id":"m","generation":"1"}`, `generation must be an integer, got a string`, 400),
		post("leave", `{}`, `member_id must be given`, 400),
		step{"GET", "/groups/g/assignment", "", 400, `{"error":"member_id must be given"}`},
		step{"DELETE", "/groups/g/assignment", "", 405, `{"error":"DELETE is not allowed here, only GET"}`},
	)
}

// TestGroupsOfKeys: a group is the first key's, and topics are for who may read
// them.
func TestGroupsOfKeys(t *testing.T) {
	s := start(t)
	s.Registry.Require(map[string]*registryv1.Principal{
		"esk_admin":  {Id: "key_admin", Admin: true},
		"esk_reader": {Id: "key_reader", Grants: []*registryv1.Grant{{Action: registryv1.Action_ACTION_READ, TopicPrefix: "orders"}}},
		"esk_other":  {Id: "key_other", Grants: []*registryv1.Grant{{Action: registryv1.Action_ACTION_READ, TopicPrefix: "*"}}},
	})
	as := func(secret, method, path, body string, status int, want string) {
		t.Helper()
		req := s.request(t, method, path, body)
		req.Header.Set("X-Es-Key", secret)
		got := s.send(t, req)
		require.Equal(t, want, got.body, "%s %s as %s", method, path, secret)
		require.Equal(t, status, got.status)
	}
	const denied = `{"error":"the group \"g\" belongs to another key"}`
	as("esk_admin", "POST", "/topics", `{"name":"orders","partitions":1}`, 201, `{"name":"orders","partitions":1}`)
	as("esk_admin", "POST", "/topics", `{"name":"secret","partitions":1}`, 201, `{"name":"secret","partitions":1}`)
	as("esk_reader", "POST", "/groups/g/join", `{"topics":["orders","secret"]}`, 403, `{"error":"the key is not granted read on topic \"secret\""}`)
	as("esk_reader", "POST", "/groups/g/join", `{"topics":["orders","none"]}`, 403, `{"error":"the key is not granted read on topic \"none\""}`)
	as("esk_reader", "POST", "/groups/g/commit", `{"topic":"orders","partition":0,"offset":1}`, 204, "")
	for _, c := range [][3]string{
		{"POST", "/groups/g/join", `{"topics":["orders"]}`},
		{"POST", "/groups/g/commit", `{"topic":"orders","partition":0,"offset":1}`},
		{"POST", "/groups/g/heartbeat", `{"member_id":"m","generation":1}`},
		{"POST", "/groups/g/leave", `{"member_id":"m"}`},
		{"GET", "/groups/g/assignment?member_id=m", ""},
		{"GET", "/groups/g/offsets", ""},
		{"DELETE", "/groups/g", ""},
		{"GET", "/groups/g/consume?topic=orders&partition=0", ""},
	} {
		as("esk_other", c[0], c[1], c[2], http.StatusForbidden, denied)
	}
	as("esk_admin", "GET", "/groups/g/offsets", "", 200, `{"offsets":{"orders":{"0":1}}}`)
	for secret, sees := range map[string]bool{"esk_reader": true, "esk_other": false, "esk_admin": true} {
		req := s.request(t, http.MethodGet, "/metrics", "")
		req.Header.Set("X-Es-Key", secret)
		require.Equal(t, sees, strings.Contains(s.send(t, req).body, `group="g"`), secret)
	}
	as("esk_reader", "POST", "/admin/reset-offsets", `{"topic":"orders"}`, 403, `{"error":"the key is not granted admin on *"}`)
}

func TestResetOffsets(t *testing.T) {
	s := start(t)
	commit := func(group string, partition, offset int) step {
		return step{"POST", "/groups/" + group + "/commit", fmt.Sprintf(`{"topic":"t","partition":%d,"offset":%d}`, partition, offset), 204, ""}
	}
	s.Coordinator.Groups.BlindResets(3)
	s.steps(t,
		create("t", "2"), create("u", "1"),
		commit("g", 0, 7), commit("g", 1, 8), commit("h", 1, 9),
		step{"POST", "/groups/g/commit", `{"topic":"u","partition":0,"offset":5}`, 204, ""},
		step{"POST", "/admin/reset-offsets", `{"topic":"t"}`, 200, `{"groups_affected":2,"entries_reset":3}`},
		step{"GET", "/groups/g/offsets", "", 200, `{"offsets":{"t":{"0":0,"1":0},"u":{"0":5}}}`},
		step{"GET", "/groups/h/offsets", "", 200, `{"offsets":{"t":{"1":0}}}`},
		step{"POST", "/admin/reset-offsets", `{}`, 400, `{"error":"topic must be given"}`},
		step{"POST", "/admin/reset-offsets", `{"topic":"none"}`, 404, `{"error":"topic \"none\" does not exist"}`},
	)
}

// A reset that has not reached every shard does not say that it has.
func TestAResetThatIsNotWhole(t *testing.T) {
	s := start(t)
	s.Coordinator.Groups.BlindResets(1 << 30)
	s.steps(t, create("t", "2"))
	s.hasty(t).steps(t,
		step{"POST", "/admin/reset-offsets", `{"topic":"t"}`, 503, `{"error":"not all groups could be reset, try again"}`},
	)
}
