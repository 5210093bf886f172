package gateway_test

import (
	"strings"
	"testing"
)

func TestGroups(t *testing.T) {
	s := start(t)
	commit := func(body string, status int, want string) step {
		return step{"POST", "/groups/g/commit", body, status, want}
	}
	s.steps(t,
		create("t", "2"), create("u", "1"),
		produce(`{"records":[{"value":"a","partition":1},{"value":"b","partition":1}]}`, 200, `{"results":[{"partition":1,"offset":0},{"partition":1,"offset":1}]}`),
		// From the start as long as nothing was committed; consuming commits nothing.
		step{"GET", "/groups/g/consume?topic=t&partition=1", "", 200, page(2, 2, record(1, 0, "null", "a"), record(1, 1, "null", "b"))},
		step{"GET", "/groups/g/offsets", "", 200, `{"offsets":{}}`},
		commit(`{"topic":"t","partition":1,"offset":1}`, 204, ""),
		commit(`{"topic":"t","partition":0,"offset":0}`, 204, ""),
		commit(`{"topic":"u","partition":0,"offset":9007199254740993}`, 204, ""),
		step{"GET", "/groups/g/offsets", "", 200, `{"offsets":{"t":{"0":0,"1":1},"u":{"0":9007199254740993}}}`},
		step{"GET", "/groups/g/consume?topic=t&partition=1", "", 200, page(2, 2, record(1, 1, "null", "b"))},
		step{"GET", "/groups/g/consume?topic=t&partition=1&encoding=base64&max_records=1", "", 200, page(2, 2, record(1, 1, "null", "Yg=="))},
		step{"GET", "/groups/other/consume?topic=t&partition=1&max_records=1", "", 200, page(1, 2, record(1, 0, "null", "a"))},
		commit(`{"topic":"t","partition":1,"offset":2}`, 204, ""),
		step{"GET", "/groups/g/consume?topic=t&partition=1", "", 200, page(2, 2)},

		// A topic that is made again is another.
		step{"DELETE", "/topics/t", "", 200, `{"name":"t","partitions":2}`},
		step{"GET", "/groups/g/offsets", "", 200, `{"offsets":{"u":{"0":9007199254740993}}}`},
		create("t", "2"),
		step{"GET", "/groups/g/offsets", "", 200, `{"offsets":{"u":{"0":9007199254740993}}}`},
		step{"GET", "/groups/g/consume?topic=t&partition=1", "", 200, page(0, 0)},
	)
}

func TestBadGroups(t *testing.T) {
	commit := func(body, want string, status int) step {
		return step{"POST", "/groups/g/commit", body, status, `{"error":"` + want + `"}`}
	}
	long := strings.Repeat("g", 250)
	start(t).steps(t,
		create("t", "2"),
		commit(``, `the body is empty, expected a JSON object`, 400),
		commit(`{}`, `topic must be given`, 400),
		commit(`{"topic":"t","offset":1}`, `partition must be given`, 400),
		commit(`{"topic":"t","partition":0}`, `offset must be given`, 400),
		commit(`{"topic":"t","partition":0,"offset":"1"}`, `offset must be an integer, got a string`, 400),
		commit(`{"topic":"t","partition":0,"offset":1.0}`, `offset must be an integer, got 1.0`, 400),
		commit(`{"topic":"t","partition":0,"offset":-1}`, `offset must be 0 or more, got -1`, 400),
		commit(`{"topic":"t","partition":2,"offset":1}`, `topic \"t\" has partitions 0 to 1, got 2`, 400),
		commit(`{"topic":"t","partition":0,"offset":1,"member_id":"m"}`, `generation must be given`, 400),
		commit(`{"topic":"t","partition":0,"offset":1,"generation":1}`, `member_id must be given`, 400),
		commit(`{"topic":"t","partition":0,"offset":1,"member_id":"m_stale","generation":7}`, `generation 7 is over`, 409),
		commit(`{"topic":"none","partition":0,"offset":1}`, `topic \"none\" does not exist`, 404),
		step{"GET", "/groups/g/consume?partition=0", "", 400, `{"error":"topic must be given"}`},
		step{"GET", "/groups/g/consume?topic=t", "", 400, `{"error":"partition must be given"}`},
		step{"GET", "/groups/g/consume?topic=none&partition=0", "", 404, `{"error":"topic \"none\" does not exist"}`},
		step{"GET", "/groups/g/consume?topic=t&partition=9", "", 400, `{"error":"topic \"t\" has partitions 0 to 1, got 9"}`},
		step{"GET", "/groups/" + long + "/offsets", "", 400, `{"error":"group must have at most 249 bytes, got 250"}`},
		step{"GET", "/groups/a%00b/offsets", "", 400, `{"error":"group must be text without control characters, got \"a\\x00b\""}`},
		step{"GET", "/groups/%ff/offsets", "", 400, `{"error":"group must be UTF-8, got \"\\xff\""}`},
		step{"GET", "/schemas/x", "", 400, `{"error":"id must be an integer of 32 bits, got \"x\""}`},
		step{"GET", "/groups/g/consume?topic=%ff&partition=0", "", 400, `{"error":"topic must be UTF-8, got \"\\xff\""}`},
		step{"GET", "/groups//offsets", "", 404, `{"error":"there is nothing at /groups//offsets"}`},
	)
}

// However a name is escaped, it is one group.
func TestNamesOfGroupsAreUnescapedOnce(t *testing.T) {
	start(t).steps(t,
		create("t", "1"),
		step{"POST", "/groups/a:b%2Fc%20d/commit", `{"topic":"t","partition":0,"offset":7}`, 204, ""},
		step{"GET", "/groups/a%3Ab%2fc%20d/offsets", "", 200, `{"offsets":{"t":{"0":7}}}`},
		step{"GET", "/groups/a:b%252Fc%20d/offsets", "", 200, `{"offsets":{}}`},
	)
}
