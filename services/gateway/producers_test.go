package gateway_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

func TestSequencedProduce(t *testing.T) {
	s := start(t)
	s.steps(t,
		create("t", "2"),
		produce(`{"producer_id":"p","records":[{"value":"a","partition":0,"sequence":42},{"value":"b","partition":1,"sequence":7},{"value":"c","partition":0,"sequence":43}]}`, 200,
			`{"results":[{"partition":0,"offset":0},{"partition":1,"offset":0},{"partition":0,"offset":1}]}`),
		// A retry with something new behind it, and with repetitions of both.
		produce(`{"producer_id":"p","records":[{"value":"c","partition":0,"sequence":43},{"value":"d","partition":0,"sequence":44},{"value":"d","partition":0,"sequence":44},{"value":"e","partition":0,"sequence":45},{"value":"d","partition":0,"sequence":44}]}`, 200,
			`{"results":[{"partition":0,"offset":1,"duplicate":true},{"partition":0,"offset":2},{"partition":0,"offset":2,"duplicate":true},{"partition":0,"offset":3},{"partition":0,"offset":2,"duplicate":true}]}`),
		// All of it was there: nothing is appended.
		produce(`{"producer_id":"p","records":[{"value":"b","partition":1,"sequence":7}]}`, 200,
			`{"results":[{"partition":1,"offset":0,"duplicate":true}]}`),
		// Another producer's numbers are its own.
		produce(`{"producer_id":"q","records":[{"value":"x","partition":1,"sequence":9223372036854775807}]}`, 200,
			`{"results":[{"partition":1,"offset":1}]}`),
		// One bad partition keeps the other from being written.
		produce(`{"producer_id":"p","records":[{"value":"f","partition":0,"sequence":46},{"value":"g","partition":1,"sequence":9}]}`, 400,
			`{"error":"sequence gap: send the missing records first (expected 8, got 9), partition 1 of topic \"t\""}`),
		produce(`{"producer_id":"p","records":[{"value":"f","partition":0,"sequence":46}]}`, 200,
			`{"results":[{"partition":0,"offset":4}]}`),
	)
	appends := s.Storage["a"].Appends()
	require.Len(t, appends, 3)
	header, err := recordbatch.ParseHeader(appends[1].GetAppends()[0].GetBatches())
	require.NoError(t, err)
	require.EqualValues(t, 2, header.Count, "what is new is one batch")
	number, sequence, ok := header.Wide()
	require.True(t, ok)
	require.EqualValues(t, 1, number)
	require.EqualValues(t, 44, sequence)
	require.Equal(t, "guard", string(appends[1].GetAppends()[0].GetGuard()))
	require.Len(t, s.Storage["b"].Appends(), 2)

	metrics := s.do(t, "GET", "/metrics", "").body
	require.Contains(t, metrics, `es_topic_records_produced_total{topic="t"} 7`)
	s.steps(t,
		step{"GET", "/admin/producers", "", 200, `{"producers":[` +
			`{"producer_id":"p","owner":"anonymous","last_used_ms":1763500000000,"partitions":[{"topic":"t","partition":0,"last_sequence":46,"last_offset":4},{"topic":"t","partition":1,"last_sequence":7,"last_offset":0}]},` +
			`{"producer_id":"q","owner":"anonymous","last_used_ms":1763500000000,"partitions":[{"topic":"t","partition":1,"last_sequence":9223372036854775807,"last_offset":1}]}]}`},
		step{"DELETE", "/admin/producers/p", "", 204, ``},
		step{"DELETE", "/admin/producers/p", "", 404, `{"error":"producer \"p\" does not exist"}`},
		// A new number: nothing is known any more.
		produce(`{"producer_id":"p","records":[{"value":"g","partition":0,"sequence":3}]}`, 200, `{"results":[{"partition":0,"offset":5}]}`),
	)
}

// A retry finds the partition of a record that names none.
func TestSequencedProduceWithoutPartition(t *testing.T) {
	s := start(t)
	s.steps(t, create("t", "7"))
	body := `{"producer_id":"checkout-svc-1","records":[{"value":"a","sequence":0},{"key":"k","value":"b","sequence":0},{"value":"c","sequence":1}]}`
	first := s.do(t, "POST", "/topics/t/produce", body)
	require.Equal(t, 200, first.status, first.body)
	again := s.do(t, "POST", "/topics/t/produce", body)
	require.Equal(t, 200, again.status, again.body)
	require.Equal(t, first.body, strings.ReplaceAll(again.body, `,"duplicate":true`, ""))
	require.Equal(t, 3, strings.Count(again.body, `"duplicate":true`))
}

func TestBadSequencedProduce(t *testing.T) {
	s := start(t)
	s.steps(t,
		create("t", "2"),
		produce(`{"producer_id":"p","records":[{"value":"a","sequence":1},{"value":"b"}]}`, 400, `{"error":"records[1].sequence must be given: the request has a producer_id"}`),
		produce(`{"records":[{"value":"a"},{"value":"b","sequence":1}]}`, 400, `{"error":"records[1].sequence needs a producer_id beside records"}`),
		produce(`{"producer_id":"p","records":[{"value":"a","sequence":-1}]}`, 400, `{"error":"records[0].sequence must be 0 or more, got -1"}`),
		produce(`{"producer_id":"p","records":[{"value":"a","sequence":"1"}]}`, 400, `{"error":"records[0].sequence must be an integer, got a string"}`),
		produce(`{"producer_id":"p","records":[{"value":"a","sequence":9223372036854775808}]}`, 400, `{"error":"records[0].sequence must be an integer of 64 bits, got 9223372036854775808"}`),
		produce(`{"producer_id":"p","records":[]}`, 400, `{"error":"records must have at least one record"}`),
	)
	require.Empty(t, s.Storage["a"].Appends())
	require.Empty(t, s.Storage["b"].Appends())
	s.Producers.FailNext(errs.New(errs.ResourceExhausted, "TOO_MANY_PRODUCERS", "too many"))
	s.steps(t, produce(`{"producer_id":"p","records":[{"value":"a","sequence":1}]}`, 429, `{"error":"too many"}`))
}

func TestGuardsThatDoNotHoldAreRenewed(t *testing.T) {
	s := start(t)
	s.steps(t, create("t", "2"))
	stale := refusal(storagev1.ErrorCode_ERROR_CODE_STALE_GUARD, "")
	s.Storage["a"].Refuse(0, stale, stale)
	body := `{"producer_id":"p","records":[{"value":"a","partition":0,"sequence":0},{"value":"b","partition":1,"sequence":0}]}`
	s.steps(t, produce(body, 200, `{"results":[{"partition":0,"offset":0},{"partition":1,"offset":0}]}`))
	require.Equal(t, 3, s.Storage["a"].Prepares())
	require.Equal(t, 1, s.Storage["b"].Prepares(), "what was written is not checked again")

	for range 8 {
		s.Storage["a"].Refuse(0, stale)
	}
	next := strings.ReplaceAll(body, `"sequence":0`, `"sequence":1`)
	s.steps(t,
		produce(next, 503, `{"error":"several requests use the producer at once, try again (the records for 1 of 2 partitions were written)"}`),
		produce(next, 200, `{"results":[{"partition":0,"offset":1},{"partition":1,"offset":1,"duplicate":true}]}`),
	)

	// A check goes on to whoever leads, and comes back from nobody with 503.
	s.Storage["a"].RefusePrepare(0, refusal(storagev1.ErrorCode_ERROR_CODE_NOT_LEADER, "b"))
	other := `{"producer_id":"q","records":[{"value":"a","partition":0,"sequence":0}]}`
	s.steps(t, produce(other, 200, `{"results":[{"partition":0,"offset":2}]}`))
	s.SetDown("a", true)
	s.SetDown("b", true)
	s.hasty(t).steps(t, produce(other, 503, `{"error":"partition 0 of topic \"t\" has no leader just now, try again"}`))
	require.Len(t, s.Storage["b"].Appends(), 2)
}

func TestProducersBelongToKeys(t *testing.T) {
	s := start(t)
	s.steps(t, create("t", "1"))
	write := []*registryv1.Grant{{Action: registryv1.Action_ACTION_WRITE, TopicPrefix: "t"}}
	s.Registry.Require(map[string]*registryv1.Principal{
		"one": {Id: "key_1", Grants: write}, "two": {Id: "key_2", Grants: write}, "root": {Id: "key_0", Admin: true},
	})
	as := func(secret, method, path, body string) answer {
		req := s.request(t, method, path, body)
		req.Header.Set("X-Es-Key", secret)
		return s.send(t, req)
	}
	body := `{"producer_id":"p","records":[{"value":"a","sequence":0}]}`
	require.Equal(t, 200, as("one", "POST", "/topics/t/produce", body).status)
	for _, secret := range []string{"two", "root"} {
		got := as(secret, "POST", "/topics/t/produce", body)
		require.Equal(t, answerOf(403, `{"error":"the producer id belongs to another key"}`), answerOf(got.status, got.body))
	}
	require.Equal(t, 403, as("one", "GET", "/admin/producers", "").status)
	require.Equal(t, 403, as("one", "DELETE", "/admin/producers/p", "").status)
	require.Equal(t, 404, as("root", "DELETE", "/admin/producers/p?owner=key_2", "").status)
	require.Equal(t, 204, as("root", "DELETE", "/admin/producers/p?owner=key_1", "").status)
	require.Equal(t, 200, as("two", "POST", "/topics/t/produce", body).status)
}
