package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

func consume(query string, status int, want string) step {
	return step{"GET", "/topics/t/consume?" + query, "", status, want}
}

func record(partition, offset int, key, value string) string {
	if key != "null" {
		key = `"` + key + `"`
	}
	return fmt.Sprintf(`{"partition":%d,"offset":%d,"timestamp_ms":1763500000000,"key":%s,"value":"%s"}`, partition, offset, key, value)
}

func page(next, watermark int, records ...string) string {
	return fmt.Sprintf(`{"records":[%s],"next_offset":%d,"high_watermark":%d}`, strings.Join(records, ","), next, watermark)
}

func TestConsume(t *testing.T) {
	s := start(t)
	s.steps(t,
		create("t", "2"),
		consume("partition=0&offset=0", 200, page(0, 0)),
		produce(`{"records":[{"key":"k","value":"a","partition":1},{"value":"b","partition":1},{"key":"","value":"","partition":1},{"value":null,"partition":1}]}`, 200,
			`{"results":[{"partition":1,"offset":0},{"partition":1,"offset":1},{"partition":1,"offset":2},{"partition":1,"offset":3}]}`),
		produce(`{"records":[{"key":"k","value":"\u0000\"\\\n\u001f\ud83d\ude00é","partition":1}]}`, 200, `{"results":[{"partition":1,"offset":4}]}`),
		consume("partition=1&offset=0", 200, page(5, 5, record(1, 0, "k", "a"), record(1, 1, "null", "b"), record(1, 2, "", ""),
			record(1, 3, "null", ""), record(1, 4, "k", `\u0000\"\\\n\u001f😀é`))),
		// In the middle of a batch.
		consume("partition=1&offset=2&max_records=1", 200, page(3, 5, record(1, 2, "", ""))),
		consume("partition=1&offset=3&max_records=2&encoding=utf8", 200, page(5, 5, record(1, 3, "null", ""), record(1, 4, "k", `\u0000\"\\\n\u001f😀é`))),
		consume("partition=1&offset=1&max_records=1&encoding=base64", 200, page(2, 5, record(1, 1, "null", "Yg=="))),
		consume("partition=1&offset=0&max_records=1&key_encoding=base64", 200, page(1, 5, record(1, 0, "aw==", "a"))),
		// By bytes; the first record comes whole.
		consume("partition=1&offset=0&max_bytes=3", 200, page(4, 5, record(1, 0, "k", "a"), record(1, 1, "null", "b"), record(1, 2, "", ""), record(1, 3, "null", ""))),
		consume("partition=1&offset=0&max_bytes=1", 200, page(1, 5, record(1, 0, "k", "a"))),
		// At and past the end.
		consume("partition=1&offset=5", 200, page(5, 5)),
		consume("partition=1&offset=9223372036854775807", 200, `{"records":[],"next_offset":9223372036854775807,"high_watermark":5}`),
		// More than the limits counts as the limits.
		consume("partition=1&offset=4&max_records=2147483647&max_bytes=2147483647&max_wait_ms=2147483647", 200, page(5, 5, record(1, 4, "k", `\u0000\"\\\n\u001f😀é`))),
		// What is not known is passed over.
		consume("partition=1&offset=5&color=red&maxRecords=x&topic=u&encoding=utf8", 200, page(5, 5)),
	)
}

func TestBadConsume(t *testing.T) {
	s := start(t)
	s.steps(t,
		create("t", "2"),
		consume("", 400, `{"error":"partition must be given"}`),
		consume("offset=0", 400, `{"error":"partition must be given"}`),
		consume("partition=0", 400, `{"error":"offset must be given"}`),
		consume("partition=x&offset=0", 400, `{"error":"partition must be an integer of 32 bits, got \"x\""}`),
		consume("partition=&offset=0", 400, `{"error":"partition must be an integer of 32 bits, got \"\""}`),
		consume("partition=0.0&offset=0", 400, `{"error":"partition must be an integer of 32 bits, got \"0.0\""}`),
		consume("partition=2147483648&offset=0", 400, `{"error":"partition must be an integer of 32 bits, got \"2147483648\""}`),
		consume("partition=0&offset=9223372036854775808", 400, `{"error":"offset must be an integer of 64 bits, got \"9223372036854775808\""}`),
		consume("partition=0&partition=1&offset=0", 400, `{"error":"partition must be given once, got it 2 times"}`),
		consume("partition=2&offset=0", 400, `{"error":"topic \"t\" has partitions 0 to 1, got 2"}`),
		consume("partition=-1&offset=0", 400, `{"error":"topic \"t\" has partitions 0 to 1, got -1"}`),
		consume("partition=0&offset=-1", 400, `{"error":"offset must be 0 or more, got -1"}`),
		consume("partition=0&offset=0&max_records=0", 400, `{"error":"max_records must be 1 or more, got 0"}`),
		consume("partition=0&offset=0&max_bytes=-1", 400, `{"error":"max_bytes must be 1 or more, got -1"}`),
		consume("partition=0&offset=0&max_wait_ms=-1", 400, `{"error":"max_wait_ms must be 0 or more, got -1"}`),
		consume("partition=0&offset=0&encoding=hex", 400, `{"error":"encoding must be utf8 or base64, got \"hex\""}`),
		consume("partition=0&offset=0&key_encoding=", 400, `{"error":"key_encoding must be utf8 or base64, got \"\""}`),
		consume("partition=0&offset=0&%zz=1", 400, `{"error":"malformed query: invalid URL escape \"%zz\""}`),
		step{"GET", "/topics/none/consume?partition=0&offset=0", "", 404, `{"error":"topic \"none\" does not exist"}`},
	)
}

// batch builds a batch of values.
func batch(t *testing.T, options recordbatch.Options, values ...string) []byte {
	b := recordbatch.NewBuilder(options)
	for _, v := range values {
		b.Append(now.UnixMilli(), nil, []byte(v), nil)
	}
	out, err := b.Finish()
	require.NoError(t, err)
	return out
}

func TestConsumeStepsOverWhatHoldsNothing(t *testing.T) {
	s := start(t)
	s.steps(t, create("t", "1"))
	id := s.Coordinator.Topic("t").GetId()
	storage := s.Storage["a"]
	producer := &recordbatch.Producer{ID: 1}
	control := recordbatch.Options{Control: true, Transactional: true, Producer: producer}
	storage.Write(id, 0, batch(t, recordbatch.Options{}, "0", "1"), 0)
	storage.Write(id, 0, batch(t, control, "marker"), 0) // 2
	storage.Write(id, 0, batch(t, recordbatch.Options{Codec: recordbatch.Zstd}, "3", "4"), 0)
	storage.Write(id, 0, batch(t, recordbatch.Options{}, "10"), 5) // 5 to 9 are gone
	storage.Write(id, 0, batch(t, control, "marker"), 0)           // 11
	s.steps(t,
		consume("partition=0&offset=0", 200, page(12, 12, record(0, 0, "null", "0"), record(0, 1, "null", "1"), record(0, 3, "null", "3"), record(0, 4, "null", "4"), record(0, 10, "null", "10"))),
		consume("partition=0&offset=2&max_records=2", 200, page(10, 12, record(0, 3, "null", "3"), record(0, 4, "null", "4"))),
		consume("partition=0&offset=6", 200, page(12, 12, record(0, 10, "null", "10"))),
		consume("partition=0&offset=11", 200, page(12, 12)),
	)
	// What lies below the start of the log is gone.
	storage.Cut(id, 0, 4)
	s.steps(t, consume("partition=0&offset=0&max_records=1", 200, page(10, 12, record(0, 4, "null", "4"))))
}

// Values that are no text never fail a read.
func TestConsumeBytes(t *testing.T) {
	s := start(t)
	s.steps(t, create("t", "1"))
	s.Storage["a"].Write(s.Coordinator.Topic("t").GetId(), 0, batch(t, recordbatch.Options{}, "a\xff\xfeb", "c"), 0)
	s.steps(t,
		consume("partition=0&offset=0", 200, page(2, 2, record(0, 0, "null", "a\ufffd\ufffdb"), record(0, 1, "null", "c"))),
		consume("partition=0&offset=0&encoding=base64", 200, page(2, 2, record(0, 0, "null", "Yf/+Yg=="), record(0, 1, "null", "Yw=="))),
	)
}

func TestConsumeManyRecords(t *testing.T) {
	s := start(t, func(c *gateway.Config) { c.MaxFetchRecords = 250 })
	s.steps(t, create("t", "1"))
	for i := range 30 {
		values := make([]string, 20)
		for j := range values {
			values[j] = fmt.Sprintf("%d/%s", i*20+j, strings.Repeat("x", 5000))
		}
		s.Storage["a"].Write(s.Coordinator.Topic("t").GetId(), 0, batch(t, recordbatch.Options{}, values...), 0)
	}
	count := func(query string) (records, fetches int) {
		before := len(s.Storage["a"].Fetches())
		got := s.do(t, "GET", "/topics/t/consume?partition=0&offset=0&"+query, "")
		require.Equal(t, 200, got.status, got.body)
		return strings.Count(got.body, `"offset":`), len(s.Storage["a"].Fetches()) - before
	}
	records, _ := count("")
	require.Equal(t, 100, records)
	records, _ = count("max_bytes=100000000&max_records=100000")
	require.Equal(t, 250, records)
	records, _ = count("max_records=1000")
	require.Equal(t, 1<<20/5003, records)
	// A few records do not cost a megabyte, and the bytes are asked for in pieces.
	records, fetches := count("max_records=1")
	require.Equal(t, 1, records)
	require.Equal(t, 1, fetches)
	last := s.Storage["a"].Fetches()[len(s.Storage["a"].Fetches())-1]
	require.EqualValues(t, 64<<10, last.GetMaxBytes())
}

func TestConsumeWaits(t *testing.T) {
	s := start(t)
	s.steps(t, create("t", "1"))
	got := s.later(s.request(t, "GET", "/topics/t/consume?partition=0&offset=0&max_wait_ms=20000", ""))
	require.Eventually(t, func() bool { return len(s.Storage["a"].Fetches()) > 0 }, eventually, tick)
	s.steps(t, produce(`{"records":[{"value":"x"}]}`, 200, `{"results":[{"partition":0,"offset":0}]}`))
	require.Equal(t, answerOf(200, page(1, 1, record(0, 0, "null", "x"))), bare(<-got))
	require.EqualValues(t, 20000, s.Storage["a"].Fetches()[0].GetMaxWaitMs())

	s.steps(t, consume("partition=0&offset=1&max_wait_ms=1", 200, page(1, 1)))
}

// A stop does not wait for readers that wait: they would be cut off in the end.
func TestAStopEndsWaitingReads(t *testing.T) {
	s := start(t)
	s.steps(t, create("t", "1"))
	got := s.later(s.request(t, "GET", "/topics/t/consume?partition=0&offset=0&max_wait_ms=30000", ""))
	require.Eventually(t, func() bool { return len(s.Storage["a"].Fetches()) > 0 }, eventually, tick)
	s.stop(t)
	require.Equal(t, answerOf(200, page(0, 0)), bare(<-got))
}

func TestConsumeFindsTheLeader(t *testing.T) {
	s := start(t)
	s.steps(t, create("t", "2"), produce(`{"records":[{"value":"x","partition":0}]}`, 200, `{"results":[{"partition":0,"offset":0}]}`))
	s.Storage["a"].Refuse(0,
		&storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE},
		&storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_NOT_LEADER, Leader: &storagev1.LeaderHint{Node: "a"}})
	s.steps(t, consume("partition=0&offset=0", 200, page(1, 1, record(0, 0, "null", "x"))))

	s.Storage["a"].Refuse(0, &storagev1.PartitionError{Code: storagev1.ErrorCode_ERROR_CODE_DAMAGED, Message: "batch at 7: CRC"})
	s.steps(t, consume("partition=0&offset=0", 503, `{"error":"damaged, partition 0 of topic \"t\": batch at 7: CRC"}`))

	s.SetDown("a", true)
	s.hasty(t).steps(t, consume("partition=0&offset=0", 503, `{"error":"partition 0 of topic \"t\" has no leader just now, try again"}`),
		step{"POST", "/admin/reset-offsets", `{"topic":"t"}`, 503, `{"error":"partition 0 of topic \"t\" has no leader just now, try again"}`})
}

// Records before a fault are served; the next read gets the fault.
func TestConsumeStopsBeforeWhatCannotBeRead(t *testing.T) {
	s := start(t)
	s.steps(t, create("t", "1"))
	id := s.Coordinator.Topic("t").GetId()
	broken := batch(t, recordbatch.Options{}, "1")
	broken[recordbatch.HeaderSize] = 0x7e // a record that is longer than the batch
	s.Storage["a"].Write(id, 0, batch(t, recordbatch.Options{}, "0"), 0)
	s.Storage["a"].Write(id, 0, broken, 0)
	s.steps(t,
		consume("partition=0&offset=0", 200, page(1, 2, record(0, 0, "null", "0"))),
		consume("partition=0&offset=1", 500, `{"error":"internal error (id ID)"}`),
	)
}
