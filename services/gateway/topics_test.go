package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/gateway/internal/clustertest"
	"github.com/sluiceio/sluice/services/kit/errs"
)

func TestTopics(t *testing.T) {
	s := start(t)
	s.steps(t,
		step{"GET", "/topics", "", 200, `{"topics":[]}`},
		step{"GET", "/healthz", "", 200, `{"status":"ok","topics":0}`},
		step{"POST", "/topics", `{"name":"one"}`, 201, `{"name":"one","partitions":1}`},
		create("orders", "3"),
		create("a", "10000"),
		step{"POST", "/topics", `{"name":"orders","partitions":2}`, 409, `{"error":"topic \"orders\" exists"}`},
		step{"GET", "/topics", "", 200, `{"topics":["a","one","orders"]}`},
		step{"GET", "/healthz", "", 200, `{"status":"ok","topics":3}`},
		step{"POST", "/topics/orders/produce", `{"records":[{"value":"x","partition":1}]}`, 200, `{"results":[{"partition":1,"offset":0}]}`},
		step{"GET", "/topics/orders", "", 200, `{"name":"orders","partitions":[` +
			`{"id":0,"start_offset":0,"end_offset":0,"segment_count":1,"size_bytes":0,"leader":"a","leader_epoch":1},` +
			`{"id":1,"start_offset":0,"end_offset":1,"segment_count":1,"size_bytes":69,"leader":"b","leader_epoch":1},` +
			`{"id":2,"start_offset":0,"end_offset":0,"segment_count":1,"size_bytes":0,"leader":"a","leader_epoch":1}],` +
			`"config":{"retention_ms":604800000,"retention_bytes":null,"cleanup_policy":"delete","segment_bytes":1073741824,"tombstone_retention_ms":86400000}}`},
		step{"DELETE", "/topics/orders", "", 200, `{"name":"orders","partitions":3}`},
		step{"DELETE", "/topics/orders", "", 404, `{"error":"topic \"orders\" does not exist"}`},
		step{"GET", "/topics/orders", "", 404, `{"error":"topic \"orders\" does not exist"}`},
		step{"GET", "/topics", "", 200, `{"topics":["a","one"]}`},
	)
}

func TestTopicConfig(t *testing.T) {
	s := start(t)
	s.steps(t,
		step{"POST", "/topics", `{"name":"t","partitions":1,"config":{"retention_ms":86400000,"retention_bytes":1073741824,` +
			`"cleanup_policy":"delete","segment_bytes":67108864,"tombstone_retention_ms":86400000}}`, 201, `{"name":"t","partitions":1}`},
		step{"GET", "/topics/t/config", "", 200, `{"retention_ms":86400000,"retention_bytes":1073741824,"cleanup_policy":"delete",` +
			`"segment_bytes":67108864,"tombstone_retention_ms":86400000}`},
		step{"PUT", "/topics/t/config", `{"retention_ms":null,"retention_bytes":null,"compression.type":"zstd"}`, 200,
			`{"retention_ms":null,"retention_bytes":null,"cleanup_policy":"delete","segment_bytes":67108864,"tombstone_retention_ms":86400000,"compression.type":"zstd"}`},
		step{"PUT", "/topics/t/config", `{"cleanup_policy":"compact,delete","retention_ms":5}`, 200,
			`{"retention_ms":5,"retention_bytes":null,"cleanup_policy":"compact,delete","segment_bytes":67108864,"tombstone_retention_ms":86400000,"compression.type":"zstd"}`},
		step{"PUT", "/topics/t/config", `{}`, 200,
			`{"retention_ms":5,"retention_bytes":null,"cleanup_policy":"compact,delete","segment_bytes":67108864,"tombstone_retention_ms":86400000,"compression.type":"zstd"}`},
		step{"PUT", "/topics/t/config", `{"cleanup_policy":"shred","retention_ms":6}`, 400, `{"error":"config cleanup.policy: \"shred\" is no policy"}`},
		step{"PUT", "/topics/t/config", `{"retention_ms":1,"retention.ms":"1"}`, 400,
			`{"error":"retention_ms and retention.ms are the same config, give one of them"}`},
		step{"PUT", "/topics/t/config", `{"retention_ms":"5"}`, 400, `{"error":"retention_ms must be an integer, got a string"}`},
		step{"PUT", "/topics/t/config", `{"color":{"a":1}}`, 400, `{"error":"color must be a string, got an object"}`},
		step{"PUT", "/topics/t/config", `[]`, 400, `{"error":"the body must be an object, got a list"}`},
		step{"PUT", "/topics/t/config", ``, 400, `{"error":"the body is empty, expected a JSON object"}`},
		step{"GET", "/topics/t/config", "", 200,
			`{"retention_ms":5,"retention_bytes":null,"cleanup_policy":"compact,delete","segment_bytes":67108864,"tombstone_retention_ms":86400000,"compression.type":"zstd"}`},
		step{"PUT", "/topics/none/config", `{"retention_ms":5}`, 404, `{"error":"topic \"none\" does not exist"}`},
		step{"GET", "/topics/none/config", "", 404, `{"error":"topic \"none\" does not exist"}`},
	)
}

func TestBadTopics(t *testing.T) {
	s := start(t)
	for body, want := range map[string]string{
		``:                                     `the body is empty, expected a JSON object`,
		` `:                                    `the body is empty, expected a JSON object`,
		`name=orders`:                          `malformed JSON at byte 0: expected a value, got 'n'`,
		`{"name":"t"`:                          `malformed JSON at byte 11: expected ',' or '}', got the end of the body`,
		`{"name":"t"} x`:                       `malformed JSON at byte 13: expected the end of the body, got 'x'`,
		`{"name":5}`:                           `name must be a string, got a number`,
		`{}`:                                   `name must be given`,
		`{"name":""}`:                          `name must be given`,
		`{"name":"."}`:                         `name must be letters, digits, '.', '-' and '_', and not "." or "..", got "."`,
		`{"name":"a b"}`:                       `name must be letters, digits, '.', '-' and '_', and not "." or "..", got "a b"`,
		`{"name":"t","partitions":0}`:          `partitions must be between 1 and 10000, got 0`,
		`{"name":"t","partitions":-1}`:         `partitions must be between 1 and 10000, got -1`,
		`{"name":"t","partitions":10001}`:      `partitions must be between 1 and 10000, got 10001`,
		`{"name":"t","partitions":"2"}`:        `partitions must be an integer, got a string`,
		`{"name":"t","partitions":2.0}`:        `partitions must be an integer, got 2.0`,
		`{"name":"t","replication_factor":-1}`: `replication_factor must be 1 or more, got -1`,
		`{"name":"t","replication_factor":3}`:  `there are 2 nodes for 3 replicas`,
		`{"name":"t","config":5}`:              `config must be an object, got a number`,
		`{"name":"t","config":{"cleanup_policy":"x"}}`:        `config cleanup.policy: "x" is no policy`,
		`{"name":"t","config":{"segment_bytes":1.5}}`:         `config.segment_bytes must be an integer, got 1.5`,
		`{"name":"` + strings.Repeat("x", 201) + `"}`:         `name must have at most 200 characters, got 201`,
		`{"name":"t","a":` + strings.Repeat("[", 5000) + "1}": `malformed JSON at byte 80: nested deeper than 64`,
	} {
		got := s.do(t, "POST", "/topics", body)
		require.Equal(t, fmt.Sprintf(`{"error":%s}`, quoted(want)), got.body, "%.100s", body)
		require.Equal(t, 400, got.status, "%.100s", body)
	}
	s.steps(t, step{"GET", "/topics", "", 200, `{"topics":[]}`})
	s.steps(t, create(strings.Repeat("x", 200), "1"))
}

func quoted(s string) string {
	return `"` + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `"`, `\"`) + `"`
}

func TestInternalTopicsDoNotExistForCallers(t *testing.T) {
	s := start(t)
	s.Coordinator.AddInternal("__shards")
	s.steps(t,
		create("t", "1"),
		step{"GET", "/topics", "", 200, `{"topics":["t"]}`},
		step{"GET", "/healthz", "", 200, `{"status":"ok","topics":1}`},
		step{"GET", "/topics/__shards", "", 404, `{"error":"topic \"__shards\" does not exist"}`},
		step{"DELETE", "/topics/__shards", "", 404, `{"error":"topic \"__shards\" does not exist"}`},
		step{"PUT", "/topics/__shards/config", `{"retention_ms":1}`, 404, `{"error":"topic \"__shards\" does not exist"}`},
		step{"POST", "/topics/__shards/produce", `{"records":[{"value":"x"}]}`, 404, `{"error":"topic \"__shards\" does not exist"}`},
		step{"GET", "/topics/__shards/consume?partition=0&offset=0", "", 404, `{"error":"topic \"__shards\" does not exist"}`},
		step{"POST", "/groups/g/commit", `{"topic":"__shards","partition":0,"offset":1}`, 404, `{"error":"topic \"__shards\" does not exist"}`},
	)
}

// A topic that another gateway made is found although the picture does not have
// it yet, and a topic that does not exist is not asked for at each request.
func TestTopicsMadeElsewhere(t *testing.T) {
	cluster := clustertest.New(t, "a")
	here, there := startOn(t, cluster), startOn(t, cluster, impatient)
	cluster.Coordinator.Hold()
	created := there.later(there.request(t, "POST", "/topics", `{"name":"t"}`))
	// Both wait for the change that is held back; the gateway that made the
	// topic answers in the end even without it.
	require.Equal(t, 201, (<-created).status)
	consumed := here.later(here.request(t, "GET", "/topics/t/consume?partition=0&offset=0", ""))
	require.Eventually(t, func() bool { return cluster.Coordinator.LookUps() == 1 }, eventually, tick)
	cluster.Coordinator.Release()
	require.Equal(t, answerOf(200, `{"records":[],"next_offset":0,"high_watermark":0}`), bare(<-consumed))

	// Nor does it matter that it was asked for before and was not there.
	require.Equal(t, 404, here.do(t, "GET", "/topics/late", "").status)
	cluster.Coordinator.Hold()
	require.Equal(t, 201, there.do(t, "POST", "/topics", `{"name":"late"}`).status)
	asked := cluster.Coordinator.LookUps()
	described := here.later(here.request(t, "GET", "/topics/late/config", ""))
	require.Eventually(t, func() bool { return cluster.Coordinator.LookUps() == asked+1 }, eventually, tick)
	cluster.Coordinator.Release()
	require.Equal(t, 200, (<-described).status)

	asked = cluster.Coordinator.LookUps()
	for range 20 {
		require.Equal(t, 404, here.do(t, "GET", "/topics/none", "").status)
	}
	require.Less(t, cluster.Coordinator.LookUps(), asked+10)
	// A name that no topic can have is not asked for at all.
	before := cluster.Coordinator.LookUps()
	require.Equal(t, 404, here.do(t, "GET", "/topics/a%20b", "").status)
	require.Equal(t, before, cluster.Coordinator.LookUps())
}

// Who made a topic finds it in whatever it asks next.
func TestChangesAreAnsweredWhenTheyAreInThePicture(t *testing.T) {
	s := start(t)
	s.Coordinator.Hold()
	created := s.later(s.request(t, "POST", "/topics", `{"name":"t"}`))
	require.Eventually(t, func() bool { return s.Coordinator.Topic("t") != nil }, eventually, tick)
	require.Never(t, func() bool { return len(created) > 0 }, 50*time.Millisecond, 10*time.Millisecond)
	s.Coordinator.Release()
	require.Equal(t, 201, (<-created).status)
	s.steps(t, step{"GET", "/topics", "", 200, `{"topics":["t"]}`})
}

func TestCoordinatorFailures(t *testing.T) {
	s := start(t)
	// Another coordinator was elected: tried again until this one is.
	s.Coordinator.FailNext(errs.New(errs.Unavailable, "NOT_COORDINATOR_LEADER", "not elected"), errs.New(errs.Unavailable, "NOT_COORDINATOR_LEADER", "not elected"))
	s.steps(t, create("t", "1"))
	// An error that leaves open what happened is not.
	s.Coordinator.FailNext(errs.New(errs.Unavailable, "METADATA_UNAVAILABLE", "the metadata store does not answer"))
	s.steps(t,
		step{"POST", "/topics", `{"name":"u"}`, 503, `{"error":"the metadata store does not answer"}`},
		step{"GET", "/topics/u", "", 404, `{"error":"topic \"u\" does not exist"}`},
	)
	hasty := s.hasty(t)
	s.SetDown(clustertest.CoordinatorNode, true)
	hasty.steps(t,
		step{"POST", "/topics", `{"name":"v"}`, 503, `{"error":"a node does not answer"}`},
		// What is known is served without a coordinator, but for who is asking.
		step{"GET", "/healthz", "", 200, `{"status":"ok","topics":1}`},
	)
}

func TestInternalErrorsShowAnIDAlone(t *testing.T) {
	s := start(t)
	s.Coordinator.FailNext(fmt.Errorf("disk /dev/sda1 is on fire"))
	s.steps(t, step{"POST", "/topics", `{"name":"t"}`, 500, `{"error":"internal error (id ID)"}`})
}
