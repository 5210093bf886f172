package common

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
)

// services starts a cluster of separate services and returns clients of both
// gateways.
func services(t *testing.T, flags ...string) (s *cluster.Services, apis [2]*httpapi.Client) {
	t.Helper()
	s = cluster.NewServices(t, cluster.Options{Flags: flags})
	cluster.Start(t, s)
	for i, g := range s.Gateways {
		apis[i] = connect(t, g.HTTP())
	}
	return s, apis
}

// spreadTopic makes topics until one is on both storage nodes, since the elected
// coordinator may not have heard of both when the cluster is ready.
func spreadTopic(t *testing.T, api *httpapi.Client, partitions int) string {
	t.Helper()
	var name string
	tries := 0
	require.Eventually(t, func() bool {
		tries++
		name = fmt.Sprint("orders-", tries)
		if api.CreateTopic(t.Context(), name, partitions, nil) != nil {
			return false // as long as the gateway waits, which may be short
		}
		topic, err := api.Topic(t.Context(), name)
		require.NoError(t, err)
		leaders := map[string]bool{}
		for _, p := range topic {
			leaders[p.Leader] = true
		}
		return len(leaders) == 2 && !leaders[""]
	}, patience, 10*time.Millisecond)
	return name
}

// TestGatewaysKnowOfTopicsAtOnce: what one gateway has answered holds on the other,
// also for a name that was asked for a moment ago and was not there.
func TestGatewaysKnowOfTopicsAtOnce(t *testing.T) {
	_, apis := services(t)
	for round := range 20 {
		here, there := apis[round%2], apis[(round+1)%2]
		name := fmt.Sprint("t", round/2)
		produce := func(status int, want string) step {
			return step{method: "POST", path: "/topics/" + name + "/produce", body: `{"records":[{"value":"x"}]}`, status: status, want: want}
		}
		steps(t, there, []step{produce(404, ""), {method: "GET", path: "/topics/" + name, status: 404}})
		require.NoError(t, here.CreateTopic(t.Context(), name, 1, nil))
		steps(t, there, []step{
			produce(200, `{"results":[{"partition":0,"offset":0}]}`),
			{method: "POST", path: "/groups/g/commit", body: fmt.Sprintf(`{"topic":%q,"partition":0,"offset":1}`, name), status: 204},
		})
		steps(t, here, []step{
			produce(200, `{"results":[{"partition":0,"offset":1}]}`),
			{method: "DELETE", path: "/topics/" + name, status: 200, want: fmt.Sprintf(`{"name":%q,"partitions":1}`, name)},
		})
		// Readers of the other gateway see the end of it a moment later.
		require.Eventually(t, func() bool {
			answer, err := there.Do(t.Context(), "GET", "/topics/"+name, nil)
			require.NoError(t, err)
			return answer.Status == 404
		}, patience, time.Millisecond)
	}
}

// TestKeysOverBothGateways: what was revoked on one gateway is refused on the
// other, and a quota is one for both.
func TestKeysOverBothGateways(t *testing.T) {
	s, apis := services(t, "--auth", "required")
	for _, api := range apis {
		api.HTTP.Transport = keyed{api.HTTP.Transport, cluster.AdminKey(t, s)}
	}
	require.NoError(t, apis[0].CreateTopic(t.Context(), "orders", 1, nil))
	const rate = 50_000
	create := fmt.Sprintf(`{"name":"k","acls":[{"action":"write","topic_prefix":"orders"}],"produce_bytes_per_sec":%d}`, rate)
	var key struct {
		Key struct {
			ID string `json:"key_id"`
		} `json:"key"`
		Secret string `json:"secret"`
	}
	made, err := apis[1].Do(t.Context(), "POST", "/admin/keys", []byte(create))
	require.NoError(t, err)
	require.Equal(t, 201, made.Status, "%s", made.Body)
	require.NoError(t, json.Unmarshal(made.Body, &key))
	var users [2]*httpapi.Client
	for i, g := range s.Gateways {
		users[i] = connectAs(t, g.HTTP(), key.Secret)
	}

	write := func(i, size int) httpapi.Answer {
		answer, err := users[i].Do(t.Context(), "POST", "/topics/orders/produce", fmt.Appendf(nil, `{"records":[{"value":%q}]}`, strings.Repeat("x", size)))
		require.NoError(t, err)
		return answer
	}
	require.Equal(t, 429, write(0, rate+1).Status, "more than ever goes at once")
	began := time.Now()
	require.Equal(t, 200, write(1, rate-1000).Status)
	for i := range users {
		next := time.Now()
		refused := write(i, rate-1000)
		for refused.Status == 200 {
			// On a busy machine there may be enough again.
			require.Greater(t, time.Since(began), 800*time.Millisecond, "two seconds' worth at once")
			began, next = next, time.Now()
			refused = write(i, rate-1000)
		}
		require.Equal(t, 429, refused.Status, "%s", refused.Body)
		after, err := strconv.Atoi(refused.Header.Get("Retry-After"))
		require.NoError(t, err)
		require.Positive(t, after)
	}

	step{method: "DELETE", path: "/admin/keys/" + key.Key.ID, status: 204}.run(t, apis[0])
	for _, user := range users {
		step{method: "GET", path: "/topics/orders", status: 401, want: `{"error":"the key is not known"}`}.run(t, user)
	}
}

// TestACoordinatorGoes: the members of a group, and what they have committed,
// outlive the coordinator that had them; the other takes over, whichever it was.
func TestACoordinatorGoes(t *testing.T) {
	s, apis := services(t, "--lease-ttl", "2s", "--leader-wait", "20s", "--coord-member-timeout", "5m")
	require.NoError(t, apis[0].CreateTopic(t.Context(), "orders", 8, nil))
	// Enough groups for shards of both.
	const groups = 8
	var members [groups][2]membership
	for i := range groups {
		for j, api := range apis {
			members[i][j] = join(t, api, fmt.Sprint("g", i), `{"topics":["orders"]}`)
		}
	}
	check := func(offset int) {
		t.Helper()
		for i := range groups {
			group := fmt.Sprint("g", i)
			owners := map[string]bool{}
			for j, api := range apis {
				got := assignment(t, api, group, members[i][j].MemberID)
				require.EqualValues(t, 2, got.Generation)
				for _, p := range got.partitions() {
					require.False(t, owners[p], "two have %s", p)
					owners[p] = true
				}
				step{method: "POST", path: "/groups/" + group + "/commit", status: 204, body: fmt.Sprintf(
					`{"topic":"orders","partition":%d,"offset":%d,"member_id":%q,"generation":2}`,
					got.Assignment[0].Partition, offset, members[i][j].MemberID)}.run(t, api)
			}
			require.Len(t, owners, 8)
			offsets, err := apis[0].Offsets(t.Context(), group)
			require.NoError(t, err)
			for _, got := range offsets["orders"] {
				require.EqualValues(t, offset, got)
			}
			require.Len(t, offsets["orders"], 2)
		}
	}
	check(1)
	for i, gone := range s.Coordinators {
		gone.Kill()
		check(10 * (i + 1))
		require.NoError(t, apis[i].CreateTopic(t.Context(), fmt.Sprint("made-without-", i), 1, nil))
		cluster.Start(t, gone)
		check(10*(i+1) + 1)
	}
}

// TestAStorageNodeIsAway: its partitions say so and come back with it; those of the
// other are not disturbed.
func TestAStorageNodeIsAway(t *testing.T) {
	s, apis := services(t, "--leader-wait", "300ms")
	const partitions = 8
	topic := spreadTopic(t, apis[0], partitions)
	write := func(i, partition int) (int, string) {
		answer, err := apis[i].Do(t.Context(), "POST", "/topics/"+topic+"/produce", fmt.Appendf(nil, `{"records":[{"value":"x","partition":%d}]}`, partition))
		require.NoError(t, err)
		return answer.Status, string(answer.Body)
	}
	for partition := range partitions {
		status, body := write(0, partition)
		require.Equal(t, 200, status, body)
	}
	gone := s.Storages[1]
	gone.Kill()
	there, away := 0, 0
	for partition := range partitions {
		for i, api := range apis {
			read := fmt.Sprintf("/topics/%s/consume?partition=%d&offset=0", topic, partition)
			answer, err := api.Do(t.Context(), "GET", read, nil)
			require.NoError(t, err)
			switch status, body := write(i, partition); status {
			case 200:
				there++
				require.Equal(t, 200, answer.Status, "%s", answer.Body)
			default:
				away++
				require.Equal(t, 503, status, body)
				require.Equal(t, fmt.Sprintf(`{"error":"partition %d of topic \"%s\" has no leader just now, try again"}`, partition, topic), body)
				require.Equal(t, 503, answer.Status)
				require.JSONEq(t, body, string(answer.Body))
			}
		}
	}
	require.Equal(t, partitions, there)
	require.Equal(t, partitions, away)
	// What is asked about all partitions tells which of them nobody tells about.
	answer, err := apis[0].Do(t.Context(), http.MethodGet, "/topics/"+topic, nil)
	require.NoError(t, err)
	require.Equal(t, 200, answer.Status, "%s", answer.Body)
	require.Equal(t, away/len(apis), strings.Count(string(answer.Body), `"state":"unreachable"`), "%s", answer.Body)
	require.Equal(t, away/len(apis), strings.Count(string(answer.Body), `"error":`), "%s", answer.Body)

	cluster.Start(t, gone)
	for _, api := range apis {
		require.Eventually(t, func() bool {
			for partition := range partitions {
				page, err := api.Consume(t.Context(), topic, partition, 0)
				if err != nil || page.Records[0].Value != "x" {
					return false
				}
			}
			return true
		}, patience, 10*time.Millisecond)
	}
	for partition := range partitions {
		status, body := write(1, partition)
		require.Equal(t, 200, status, body)
	}
}

// TestEtcdIsAway: records flow on without etcd, what needs it says so, and all is
// as before once it is back.
func TestEtcdIsAway(t *testing.T) {
	s, apis := services(t, "--request-timeout", "5s")
	steps(t, apis[0], session)
	s.Etcd.Kill()
	for i, api := range apis {
		step{method: "POST", path: "/topics/orders/produce", body: `{"records":[{"key":"user-1","value":"x"}]}`, status: 200,
			want: fmt.Sprintf(`{"results":[{"partition":0,"offset":%d}]}`, i+1)}.run(t, api)
		step{method: "GET", path: "/topics/orders/consume?partition=1&offset=1", status: 200, want: `{"records":[],"next_offset":1,"high_watermark":1}`}.run(t, api)
	}
	answer, err := apis[0].Do(t.Context(), "POST", "/topics", []byte(`{"name":"new"}`))
	require.NoError(t, err)
	require.Equal(t, 503, answer.Status, "%s", answer.Body)
	cluster.Start(t, s.Etcd)
	for i, api := range apis {
		require.Eventually(t, func() bool {
			return api.CreateTopic(t.Context(), fmt.Sprint("new-", i), 1, nil) == nil
		}, patience, 10*time.Millisecond)
		var offsets map[string]map[int]int64
		require.Eventually(t, func() (ok bool) {
			var err error
			offsets, err = api.Offsets(t.Context(), "analytics")
			return err == nil
		}, patience, 10*time.Millisecond)
		require.Equal(t, map[string]map[int]int64{"orders": {0: 1}}, offsets)
	}
}
