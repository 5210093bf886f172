package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway"
	"github.com/sluiceio/sluice/services/gateway/internal/clustertest"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

func produce(body string, status int, want string) step {
	return step{"POST", "/topics/t/produce", body, status, want}
}

func TestProduceRouting(t *testing.T) {
	s := start(t)
	s.steps(t,
		create("t", "3"),
		// Without key and partition one after the other; else as told.
		produce(`{"records":[{"value":"a"},{"value":"b"},{"value":"c"},{"value":"d"},{"value":"e","partition":2},{"key":"user-1","value":"f"}]}`, 200,
			`{"results":[{"partition":0,"offset":0},{"partition":1,"offset":0},{"partition":2,"offset":0},{"partition":0,"offset":1},{"partition":2,"offset":1},{"partition":1,"offset":1}]}`),
		produce(`{"records":[{"value":"a"}]}`, 200, `{"results":[{"partition":1,"offset":2}]}`),
		// An empty key is a key.
		produce(`{"records":[{"key":"","value":"a"},{"key":"","value":"b"}]}`, 200, `{"results":[{"partition":1,"offset":3},{"partition":1,"offset":4}]}`),
		step{"POST", "/topics", `{"name":"java","partitions":2,"config":{"sluice.key.hash":"murmur2"}}`, 201, `{"name":"java","partitions":2}`},
		step{"POST", "/topics/java/produce", `{"records":[{"key":"21","value":"x"},{"key":"abc","value":"y"}]}`, 200, `{"results":[{"partition":0,"offset":0},{"partition":1,"offset":0}]}`},
	)
}

// One request is one call to each node and one append to each partition.
func TestProduceIsOneAppendAPartition(t *testing.T) {
	s := start(t)
	s.steps(t, create("t", "4"))
	var records []string
	for i := range 100 {
		records = append(records, fmt.Sprintf(`{"value":"%d","partition":%d}`, i, i%4))
	}
	got := s.do(t, "POST", "/topics/t/produce", `{"records":[`+strings.Join(records, ",")+`]}`)
	require.Equal(t, 200, got.status, got.body)
	for node, partitions := range map[string][]int32{"a": {0, 2}, "b": {1, 3}} {
		appends := s.Storage[node].Appends()
		require.Len(t, appends, 1)
		require.Equal(t, storagev1.Origin_ORIGIN_CLIENT, appends[0].GetOrigin())
		var numbers []int32
		for _, a := range appends[0].GetAppends() {
			numbers = append(numbers, a.GetPartition().GetPartition())
			batch, rest, err := recordbatch.Next(a.GetBatches())
			require.NoError(t, err)
			require.Empty(t, rest)
			header, err := recordbatch.ParseHeader(batch)
			require.NoError(t, err)
			require.EqualValues(t, 25, header.Count)
			require.Equal(t, now.UnixMilli(), header.BaseTimestamp)
		}
		require.Equal(t, partitions, numbers)
	}
}

// An empty value is Kafka's tombstone; an empty key is a key and no key is none.
func TestEmptyValuesAreWrittenAsNull(t *testing.T) {
	s := start(t)
	s.steps(t,
		create("t", "1"),
		produce(`{"records":[{"key":"","value":""},{"key":null,"value":null},{},{"key":"k","value":"v"}]}`, 200,
			`{"results":[{"partition":0,"offset":0},{"partition":0,"offset":1},{"partition":0,"offset":2},{"partition":0,"offset":3}]}`),
	)
	var keys, values [][]byte
	for r, err := range recordbatch.Records(s.Storage["a"].Appends()[0].GetAppends()[0].GetBatches(), recordbatch.Limits{}) {
		require.NoError(t, err)
		keys, values = append(keys, r.Key), append(values, r.Value)
	}
	require.Equal(t, [][]byte{{}, nil, nil, []byte("k")}, keys)
	require.Equal(t, [][]byte{nil, nil, nil, []byte("v")}, values)
}

func TestBatchesHaveAtMostAMegabyte(t *testing.T) {
	s := start(t)
	s.steps(t, create("t", "1"))
	value := strings.Repeat("x", 300_000)
	large := strings.Repeat("y", 2_000_000)
	body := `{"records":[` + strings.Repeat(`{"value":"`+value+`"},`, 7) + `{"value":"` + large + `"},{"value":"z"}]}`
	got := s.do(t, "POST", "/topics/t/produce", body)
	require.Equal(t, 200, got.status, got.body)
	require.Contains(t, got.body, `{"partition":0,"offset":8}]}`)
	var counts []int
	for rest := s.Storage["a"].Appends()[0].GetAppends()[0].GetBatches(); len(rest) > 0; {
		batch, after, err := recordbatch.Next(rest)
		require.NoError(t, err)
		require.NoError(t, recordbatch.CheckCRC(batch))
		header, err := recordbatch.ParseHeader(batch)
		require.NoError(t, err)
		if header.Count > 1 {
			require.LessOrEqual(t, len(batch), 1<<20)
		}
		counts = append(counts, int(header.Count))
		rest = after
	}
	require.Equal(t, []int{3, 3, 1, 1, 1}, counts)
	s.steps(t, step{"GET", "/topics/t/consume?partition=0&offset=8", "", 200,
		`{"records":[{"partition":0,"offset":8,"timestamp_ms":1763500000000,"key":null,"value":"z"}],"next_offset":9,"high_watermark":9}`})
}

func TestBadProduce(t *testing.T) {
	s := start(t, func(c *gateway.Config) {
		c.MaxRecordBytes = 1000
		c.MaxRequestBodyBytes = 20_000
	})
	s.steps(t,
		create("t", "2"),
		step{"POST", "/topics", `{"name":"compacted","config":{"cleanup_policy":"compact"}}`, 201, `{"name":"compacted","partitions":1}`},
		step{"POST", "/topics", `{"name":"small","partitions":2,"config":{"max.message.bytes":"200"}}`, 201, `{"name":"small","partitions":2}`},

		produce(``, 400, `{"error":"the body is empty, expected a JSON object"}`),
		produce(`{}`, 400, `{"error":"records must have at least one record"}`),
		produce(`{"records":[]}`, 400, `{"error":"records must have at least one record"}`),
		produce(`{"records":null}`, 400, `{"error":"records must have at least one record"}`),
		produce(`{"records":"x"}`, 400, `{"error":"records must be a list, got a string"}`),
		produce(`{"records":[{"value":"x"},{"value":5}]}`, 400, `{"error":"records[1].value must be a string, got a number"}`),
		produce(`{"records":[{"value":"x"},{"value":"x","partition":"1"}]}`, 400, `{"error":"records[1].partition must be an integer, got a string"}`),
		produce(`{"records":[{"value":"x"},{"value":"x","partition":1.0}]}`, 400, `{"error":"records[1].partition must be an integer, got 1.0"}`),
		produce(`{"records":[{"value":"x"},{"value":"x","partition":2}]}`, 400, `{"error":"topic \"t\" has partitions 0 to 1, got 2"}`),
		produce(`{"records":[{"value":"x"},{"value":"x","partition":-1}]}`, 400, `{"error":"records[1].partition must be 0 or more, got -1"}`),
		produce(`{"records":[{"value":"x"},{"value":"`+strings.Repeat("x", 1001)+`"}]}`, 400, `{"error":"records[1] has 1001 bytes, the limit is 1000"}`),
		produce(`{"records":[{"value":"x"}]`, 400, `{"error":"malformed JSON at byte 26: expected ',' or '}', got the end of the body"}`),
		produce(`{"records":[{"value":"x"}]}x`, 400, `{"error":"malformed JSON at byte 27: expected the end of the body, got 'x'"}`),
		produce("{\"records\":[{\"value\":\"\xff\"}]}", 400, `{"error":"malformed JSON at byte 22: not UTF-8"}`),
		produce(`{"records":[`+strings.Repeat(`{"value":"x"},`, 2000)+`{}]}`, 413, `{"error":"the body is larger than the limit of 20000 bytes"}`),
		step{"POST", "/topics/none/produce", `{"records":[{"value":"x"}]}`, 404, `{"error":"topic \"none\" does not exist"}`},
		step{"POST", "/topics/compacted/produce", `{"records":[{"key":"k","value":"x"},{"value":"x"}]}`, 400,
			`{"error":"records[1] must have a key: topic \"compacted\" is compacted"}`},
		step{"POST", "/topics/small/produce", `{"records":[{"value":"x","partition":0},{"value":"` + strings.Repeat("x", 200) + `","partition":1}]}`, 400,
			`{"error":"records[1] takes a batch of 270 bytes, max.message.bytes of topic \"small\" is 200"}`},

		step{"GET", "/topics/t/consume?partition=0&offset=0", "", 200, `{"records":[],"next_offset":0,"high_watermark":0}`},
		step{"GET", "/topics/t/consume?partition=1&offset=0", "", 200, `{"records":[],"next_offset":0,"high_watermark":0}`},
	)
	require.Empty(t, s.Storage["a"].Appends())
	require.Empty(t, s.Storage["b"].Appends())

	// Many small records are split where one batch of them would be too large.
	got := s.do(t, "POST", "/topics/small/produce", `{"records":[`+strings.Repeat(`{"value":"0123456789","partition":0},`, 20)+`{"value":"x","partition":0}]}`)
	require.Equal(t, 200, got.status, got.body)
}

// A body without a length, or with a wrong one, is bounded too.
func TestBodiesOfUnknownLength(t *testing.T) {
	s := start(t, func(c *gateway.Config) { c.MaxRequestBodyBytes = 1 << 20 })
	s.steps(t, create("t", "1"))
	send := func(body []byte) answer {
		req := s.request(t, "POST", "/topics/t/produce", "")
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), -1
		return s.send(t, req)
	}
	record := func(n int) []byte { return []byte(`{"records":[{"value":"` + strings.Repeat("x", n) + `"}]}`) }
	require.Equal(t, answerOf(200, `{"results":[{"partition":0,"offset":0}]}`), bare(send(record(900_000))))
	require.Equal(t, answerOf(413, `{"error":"the body is larger than the limit of 1048576 bytes"}`), bare(send(record(1_100_000))))
}

func TestProduceRetriesOnlyWhatWasNotWritten(t *testing.T) {
	body := `{"records":[{"value":"x","partition":0},{"value":"y","partition":1}]}`
	t.Run("not the leader", func(t *testing.T) {
		s := start(t)
		s.steps(t, create("t", "2"))
		// Partition 0 lies on a; a names b.
		s.Storage["a"].Refuse(0, refusal(storagev1.ErrorCode_ERROR_CODE_NOT_LEADER, "b"))
		s.steps(t, produce(body, 200, `{"results":[{"partition":0,"offset":0},{"partition":1,"offset":0}]}`))
		require.Len(t, s.Storage["a"].Appends(), 1)
		require.Len(t, s.Storage["b"].Appends(), 2)
		// From now on the picture knows.
		s.Coordinator.SetLeader("t", 0, "b", 2)
		require.Eventually(t, func() bool {
			before := len(s.Storage["a"].Appends())
			got := s.do(t, "POST", "/topics/t/produce", `{"records":[{"value":"x","partition":0}]}`)
			return got.status == 200 && len(s.Storage["a"].Appends()) == before
		}, eventually, tick)
	})
	t.Run("no leader for a moment", func(t *testing.T) {
		s := start(t)
		s.steps(t, create("t", "2"))
		s.Storage["a"].Refuse(0, refusal(storagev1.ErrorCode_ERROR_CODE_NOT_AVAILABLE, ""), refusal(storagev1.ErrorCode_ERROR_CODE_UNKNOWN_PARTITION, ""))
		s.steps(t, produce(body, 200, `{"results":[{"partition":0,"offset":0},{"partition":1,"offset":0}]}`))
		require.Len(t, s.Storage["a"].Appends(), 3)
		require.Len(t, s.Storage["b"].Appends(), 1, "what was written is not sent again")
	})
	t.Run("no leader", func(t *testing.T) {
		s := start(t)
		s.steps(t, create("t", "2"))
		s.SetDown("a", true)
		s.hasty(t).steps(t,
			produce(`{"records":[{"value":"x","partition":0}]}`, 503, `{"error":"partition 0 of topic \"t\" has no leader just now, try again"}`),
			produce(body, 503, `{"error":"partition 0 of topic \"t\" has no leader just now, try again (the records for 1 of 2 partitions were written)"}`),
		)
		s.SetDown("a", false)
		s.steps(t, produce(body, 200, `{"results":[{"partition":0,"offset":0},{"partition":1,"offset":1}]}`))
	})
	t.Run("unknown outcome", func(t *testing.T) {
		s := start(t)
		s.steps(t, create("t", "2"))
		unknown := `{"error":"the outcome is unknown: records of this request may or may not have been written to partition 0 of topic \"t\"`
		s.Storage["a"].Refuse(0, refusal(storagev1.ErrorCode_ERROR_CODE_UNKNOWN_OUTCOME, ""))
		s.steps(t, produce(body, 503, unknown+` (the records for 1 of 2 partitions were written)"}`))
		require.Len(t, s.Storage["a"].Appends(), 1)
		// The call itself died after it was served.
		s.Storage["a"].FailAfter(errs.New(errs.Unavailable, "GONE", "connection reset"))
		s.steps(t, produce(`{"records":[{"value":"x","partition":0}]}`, 503, unknown+`"}`))
		require.Len(t, s.Storage["a"].Appends(), 2)
		// The node's own fault, of which only the log tells.
		s.Storage["a"].FailAfter(fmt.Errorf("segment 7 is on fire"))
		s.steps(t, produce(`{"records":[{"value":"x","partition":0}]}`, 503, unknown+`"}`))
		require.Len(t, s.Storage["a"].Appends(), 3)
	})
	t.Run("refused for good", func(t *testing.T) {
		s := start(t)
		s.steps(t, create("t", "2"))
		for code, want := range map[storagev1.ErrorCode]answer{
			storagev1.ErrorCode_ERROR_CODE_RECORD_TOO_LARGE: answerOf(400, `{"error":"record too large, partition 0 of topic \"t\": because"}`),
			storagev1.ErrorCode_ERROR_CODE_INVALID_RECORD:   answerOf(400, `{"error":"invalid record, partition 0 of topic \"t\": because"}`),
			storagev1.ErrorCode_ERROR_CODE_DAMAGED:          answerOf(503, `{"error":"damaged, partition 0 of topic \"t\": because"}`),
			storagev1.ErrorCode_ERROR_CODE_STORAGE_FAILED:   answerOf(503, `{"error":"storage failed, partition 0 of topic \"t\": because"}`),
			storagev1.ErrorCode_ERROR_CODE_NO_SPACE:         answerOf(503, `{"error":"because, partition 0 of topic \"t\""}`),
			storagev1.ErrorCode_ERROR_CODE_OVERLOADED:       answerOf(503, `{"error":"overloaded, partition 0 of topic \"t\": because"}`),
			storagev1.ErrorCode_ERROR_CODE_UNSUPPORTED:      answerOf(501, `{"error":"unsupported, partition 0 of topic \"t\": because"}`),
			storagev1.ErrorCode_ERROR_CODE_CORRUPT_MESSAGE:  answerOf(500, `{"error":"internal error (id ID)"}`),
			storagev1.ErrorCode_ERROR_CODE_FENCED_OWNER:     answerOf(500, `{"error":"internal error (id ID)"}`),
		} {
			before := len(s.Storage["a"].Appends())
			s.Storage["a"].Refuse(0, refusal(code, ""))
			s.steps(t, produce(`{"records":[{"value":"x","partition":0}]}`, want.status, want.body))
			require.Len(t, s.Storage["a"].Appends(), before+1, code)
		}
		s.Storage["a"].Refuse(0, refusal(storagev1.ErrorCode_ERROR_CODE_OVERLOADED, ""))
		require.Equal(t, "1", s.do(t, "POST", "/topics/t/produce", `{"records":[{"value":"x","partition":0}]}`).header.Get("Retry-After"))
		s.Storage["a"].Refuse(0, refusal(storagev1.ErrorCode_ERROR_CODE_NO_SPACE, ""))
		require.Equal(t, "1", s.do(t, "POST", "/topics/t/produce", `{"records":[{"value":"x","partition":0}]}`).header.Get("Retry-After"))
		require.Contains(t, s.log.String(), "ERROR_CODE_FENCED_OWNER")
	})
}

// Every code of storage has a status; none falls through to a wrong one.
func TestEveryStorageCodeHasAnAnswer(t *testing.T) {
	s := startOn(t, clustertest.New(t, "a"), func(c *gateway.Config) { c.LeaderWait = 1 })
	s.steps(t, create("t", "1"))
	for number := range storagev1.ErrorCode_name {
		code := storagev1.ErrorCode(number)
		s.Storage["a"].Refuse(0, &storagev1.PartitionError{Code: code, Message: "because"})
		got := s.do(t, "POST", "/topics/t/produce", `{"records":[{"value":"x"}]}`)
		require.GreaterOrEqual(t, got.status, 400, code)
		var body map[string]string
		require.NoError(t, json.Unmarshal([]byte(got.body), &body), code)
		if got.status == http.StatusInternalServerError {
			require.NotContains(t, got.body, "because", code)
		}
	}
}

func TestBodyBudget(t *testing.T) {
	s := start(t, func(c *gateway.Config) {
		c.MaxRequestBodyBytes = 1 << 20
		// Room for the slow sender, and for the first read of another.
		c.MaxInflightBodyBytes = 1<<20 + 256<<10 + 10
		c.MaxFetchBytes = 1 << 20
	})
	s.steps(t, create("t", "1"))
	// A sender that has sent most of a body holds most of the budget.
	slow, feed := io.Pipe()
	req := s.request(t, "POST", "/topics/t/produce", "")
	req.Body, req.ContentLength = slow, 1<<20
	held := s.later(req)
	head := `{"records":[{"value":"`
	_, err := io.WriteString(feed, head+strings.Repeat("x", 900_000))
	require.NoError(t, err)

	big := `{"records":[{"value":"` + strings.Repeat("y", 400_000) + `"}]}`
	require.Eventually(t, func() bool {
		got := s.do(t, "POST", "/topics/t/produce", big)
		return got.status == 503 && got.header.Get("Retry-After") == "1"
	}, eventually, tick)
	require.Equal(t, 200, s.do(t, "POST", "/topics/t/produce", `{"records":[{"value":"small"}]}`).status)

	tail := `"}]}`
	_, err = io.WriteString(feed, strings.Repeat("x", 1<<20-len(head)-900_000-len(tail))+tail)
	require.NoError(t, err)
	require.NoError(t, feed.Close())
	require.Equal(t, 200, (<-held).status)
	require.Equal(t, 200, s.do(t, "POST", "/topics/t/produce", big).status)
}

func refusal(code storagev1.ErrorCode, leader string) *storagev1.PartitionError {
	return &storagev1.PartitionError{Code: code, Message: "because", Leader: &storagev1.LeaderHint{Node: leader}}
}
