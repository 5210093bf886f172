package common

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
)

// sequenced is the body of a request of a producer to one partition, with the
// sequences from first up to last.
func sequenced(producer string, partition, first, last int) string {
	var records []string
	for sequence := first; sequence <= last; sequence++ {
		records = append(records, fmt.Sprintf(`{"key":"abc","value":"%d","partition":%d,"sequence":%d}`, sequence, partition, sequence))
	}
	return fmt.Sprintf(`{"producer_id":%q,"records":[%s]}`, producer, strings.Join(records, ","))
}

// placed is the answer for records at neighbouring offsets.
func placed(partition, first, last int, duplicate bool) string {
	mark := ""
	if duplicate {
		mark = `,"duplicate":true`
	}
	var results []string
	for offset := first; offset <= last; offset++ {
		results = append(results, fmt.Sprintf(`{"partition":%d,"offset":%d%s}`, partition, offset, mark))
	}
	return `{"results":[` + strings.Join(results, ",") + `]}`
}

func TestIdempotentProducers(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		require.NoError(t, api.CreateTopic(t.Context(), "t", 2, nil))
		write := func(name, body string, status int, want string) step {
			return step{name: name, method: "POST", path: "/topics/t/produce", body: body, status: status, want: want}
		}
		steps(t, api, []step{
			write("the first sequence may be any", sequenced("checkout-svc-1", 0, 42, 43), 200, placed(0, 0, 1, false)),
			write("a retry", sequenced("checkout-svc-1", 0, 42, 43), 200, placed(0, 0, 1, true)),
			write("the next", sequenced("checkout-svc-1", 0, 44, 44), 200, placed(0, 2, 2, false)),
			write("skips ahead", sequenced("checkout-svc-1", 0, 46, 46), 400,
				`{"error":"sequence gap: send the missing records first (expected 45, got 46), partition 0 of topic \"t\""}`),
			write("before the first", sequenced("checkout-svc-1", 0, 41, 41), 400,
				`{"error":"sequence too low (the oldest that is still known is 42, got 41), partition 0 of topic \"t\""}`),
			write("somebody else's records in between", `{"records":[{"value":"x","partition":0}]}`, 200, placed(0, 3, 3, false)),
			write("a retry and the next", sequenced("checkout-svc-1", 0, 44, 45), 200,
				`{"results":[{"partition":0,"offset":2,"duplicate":true},{"partition":0,"offset":4}]}`),
			write("the other partition has a sequence of its own", sequenced("checkout-svc-1", 1, 0, 1), 200, placed(1, 0, 1, false)),
			write("another producer has sequences of its own", sequenced("q", 0, 7, 7), 200, placed(0, 5, 5, false)),
			write("one partition is wrong: nothing is written", `{"producer_id":"checkout-svc-1","records":[
				{"value":"a","partition":0,"sequence":46},{"value":"b","partition":1,"sequence":3}]}`, 400,
				`{"error":"sequence gap: send the missing records first (expected 2, got 3), partition 1 of topic \"t\""}`),
			write("and put right", `{"producer_id":"checkout-svc-1","records":[
				{"value":"a","partition":0,"sequence":46},{"value":"b","partition":1,"sequence":2},{"value":"a","partition":0,"sequence":46}]}`, 200,
				`{"results":[{"partition":0,"offset":6},{"partition":1,"offset":2},{"partition":0,"offset":6,"duplicate":true}]}`),
			write("some sequences missing", `{"producer_id":"checkout-svc-1","records":[{"value":"a","partition":0,"sequence":47},{"value":"b","partition":0}]}`, 400, ""),
			write("a sequence without a producer", `{"records":[{"value":"a","partition":0,"sequence":47}]}`, 400, ""),
			write("a producer without sequences", `{"producer_id":"checkout-svc-1","records":[{"value":"a","partition":0}]}`, 400, ""),
			write("an empty producer id", `{"producer_id":"","records":[{"value":"a","partition":0,"sequence":1}]}`, 400, ""),
			write("a negative sequence", `{"producer_id":"checkout-svc-1","records":[{"value":"a","partition":0,"sequence":-1}]}`, 400, ""),
			{method: "GET", path: "/topics/t/consume?partition=1&offset=0", status: 200,
				want: `{"records":[{"partition":1,"offset":0,"timestamp_ms":TIME,"key":"abc","value":"0"},{"partition":1,"offset":1,"timestamp_ms":TIME,"key":"abc","value":"1"},{"partition":1,"offset":2,"timestamp_ms":TIME,"key":null,"value":"b"}],"next_offset":3,"high_watermark":3}`},
		})
	})
}

func TestTheLast128AreKnown(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		require.NoError(t, api.CreateTopic(t.Context(), "t", 1, nil))
		write := func(first, last, status int, want string) {
			t.Helper()
			step{method: "POST", path: "/topics/t/produce", body: sequenced("p", 0, first, last), status: status, want: want}.run(t, api)
		}
		write(0, 199, 200, placed(0, 0, 199, false))
		write(72, 199, 200, placed(0, 72, 199, true))
		write(71, 71, 400, `{"error":"sequence too low (the oldest that is still known is 72, got 71), partition 0 of topic \"t\""}`)
		write(71, 200, 400, `{"error":"sequence too low (the oldest that is still known is 72, got 71), partition 0 of topic \"t\""}`)
		for sequence := 200; sequence < 210; sequence++ {
			write(sequence, sequence, 200, placed(0, sequence, sequence, false))
		}
		write(82, 82, 200, placed(0, 82, 82, true))
		write(81, 81, 400, "")
	})
}

// over stops a server in different ways and starts it again.
var over = map[string]func(t *testing.T, s *cluster.Process){
	"a clean stop": func(t *testing.T, s *cluster.Process) { require.NoError(t, s.Stop()) },
	"kill -9":      func(_ *testing.T, s *cluster.Process) { s.Kill() },
}

func TestProducersAreKnownAfterARestart(t *testing.T) {
	for name, stop := range over {
		t.Run(name, func(t *testing.T) {
			s := cluster.NewProcess(t, cluster.Options{})
			cluster.Start(t, s)
			api := connect(t, s.HTTP())
			// Small segments, so that most of the state stands in points.
			require.NoError(t, api.CreateTopic(t.Context(), "t", 2, map[string]any{"segment_bytes": 1024}))
			write := func(partition, first, last, status int, want string) {
				t.Helper()
				step{method: "POST", path: "/topics/t/produce", body: sequenced("p", partition, first, last), status: status, want: want}.run(t, api)
			}
			next := 0
			for round := range 3 {
				for range 7 {
					write(0, next, next+9, 200, placed(0, next, next+9, false))
					next += 10
				}
				write(1, 2*round, 2*round+1, 200, placed(1, 2*round, 2*round+1, false))
				stop(t, s)
				cluster.Start(t, s)
				known := max(0, next-128)
				write(0, next-3, next-1, 200, placed(0, next-3, next-1, true))
				write(0, known, next-1, 200, placed(0, known, next-1, true))
				write(0, next+1, next+1, 400, "")
				if known > 0 {
					write(0, known-1, known-1, 400, "")
				}
				write(1, 0, 2*round+1, 200, placed(1, 0, 2*round+1, true))
			}
		})
	}
}

// Many at once with the same sequences: each is written once and the others are
// told where.
func TestRetriesAtOnceWriteOnce(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		require.NoError(t, api.CreateTopic(t.Context(), "t", 1, nil))
		for round := range 5 {
			var (
				all   sync.WaitGroup
				mu    sync.Mutex
				fresh int
			)
			for range 8 {
				all.Go(func() {
					for {
						answer, err := api.Do(t.Context(), "POST", "/topics/t/produce", []byte(sequenced("p", 0, 3*round, 3*round+2)))
						if err != nil || answer.Status == 503 {
							continue // busy: the same again
						}
						var got struct {
							Results []struct {
								Offset    int
								Duplicate bool
							}
						}
						mu.Lock()
						defer mu.Unlock()
						if answer.Status != 200 || json.Unmarshal(answer.Body, &got) != nil {
							t.Errorf("%d %s", answer.Status, answer.Body)
							return
						}
						for i, r := range got.Results {
							if r.Offset != 3*round+i {
								t.Errorf("record %d is at %d", i, r.Offset)
							}
							if !r.Duplicate {
								fresh++
							}
						}
						return
					}
				})
			}
			all.Wait()
			require.Equal(t, 3, fresh, "round %d", round)
		}
	})
}

func TestAdminProducers(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		require.NoError(t, api.CreateTopic(t.Context(), "t", 2, nil))
		steps(t, api, []step{
			{method: "GET", path: "/admin/producers", status: 200, want: `{"producers":[]}`},
			{method: "POST", path: "/topics/t/produce", body: sequenced("b/c", 1, 5, 7), status: 200, want: placed(1, 0, 2, false)},
			{method: "POST", path: "/topics/t/produce", body: sequenced("b/c", 0, 1, 1), status: 200, want: placed(0, 0, 0, false)},
			{method: "POST", path: "/topics/t/produce", body: sequenced("a", 1, 0, 0), status: 200, want: placed(1, 3, 3, false)},
		})
		answer, err := api.Do(t.Context(), "GET", "/admin/producers", nil)
		require.NoError(t, err)
		var got struct {
			Producers []map[string]any
		}
		require.NoError(t, json.Unmarshal(answer.Body, &got), "%s", answer.Body)
		require.Len(t, got.Producers, 2)
		for _, p := range got.Producers {
			require.Greater(t, p["last_used_ms"], float64(1_700_000_000_000))
			delete(p, "last_used_ms")
		}
		require.Equal(t, []map[string]any{
			{"producer_id": "a", "owner": "anonymous", "partitions": []any{
				map[string]any{"topic": "t", "partition": 1.0, "last_sequence": 0.0, "last_offset": 3.0},
			}},
			{"producer_id": "b/c", "owner": "anonymous", "partitions": []any{
				map[string]any{"topic": "t", "partition": 0.0, "last_sequence": 1.0, "last_offset": 0.0},
				map[string]any{"topic": "t", "partition": 1.0, "last_sequence": 7.0, "last_offset": 2.0},
			}},
		}, got.Producers)
		steps(t, api, []step{
			{method: "DELETE", path: "/admin/producers/nobody", status: 404},
			{method: "DELETE", path: "/admin/producers/b%2Fc", status: 204},
			{name: "nothing is known of it any more", method: "POST", path: "/topics/t/produce", body: sequenced("b/c", 1, 100, 101), status: 200, want: placed(1, 4, 5, false)},
			{name: "nor of what it wrote before", method: "POST", path: "/topics/t/produce", body: sequenced("b/c", 1, 7, 7), status: 400},
		})
	})
}
