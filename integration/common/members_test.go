package common

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
)

// membership is what a join and an assignment answer.
type membership struct {
	MemberID   string `json:"member_id"`
	Generation int64  `json:"generation"`
	Assignment []struct {
		Topic     string `json:"topic"`
		Partition int    `json:"partition"`
	} `json:"assignment"`
}

// partitions are the assigned ones as text.
func (m membership) partitions() []string {
	list := []string{}
	for _, p := range m.Assignment {
		list = append(list, fmt.Sprintf("%s/%d", p.Topic, p.Partition))
	}
	return list
}

func join(t *testing.T, api *httpapi.Client, group, body string) membership {
	t.Helper()
	answer, err := api.Do(t.Context(), "POST", "/groups/"+group+"/join", []byte(body))
	require.NoError(t, err)
	require.Equal(t, 200, answer.Status, "%s", answer.Body)
	var m membership
	require.NoError(t, json.Unmarshal(answer.Body, &m))
	return m
}

func assignment(t *testing.T, api *httpapi.Client, group, member string) membership {
	t.Helper()
	answer, err := api.Do(t.Context(), "GET", "/groups/"+group+"/assignment?member_id="+member, nil)
	require.NoError(t, err)
	require.Equal(t, 200, answer.Status, "%s", answer.Body)
	var m membership
	require.NoError(t, json.Unmarshal(answer.Body, &m))
	return m
}

// beat is a heartbeat with its whole answer.
func beat(member string, generation int64, want string) step {
	return step{
		method: "POST", path: "/groups/g/heartbeat",
		body: fmt.Sprintf(`{"member_id":%q,"generation":%d}`, member, generation), status: 200, want: want,
	}
}

func TestMembersJoinShareAndLeave(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		steps(t, api, []step{
			{method: "POST", path: "/topics", body: `{"name":"orders","partitions":3}`, status: 201, want: `{"name":"orders","partitions":3}`},
			{method: "POST", path: "/topics", body: `{"name":"billing","partitions":1}`, status: 201, want: `{"name":"billing","partitions":1}`},
			{method: "POST", path: "/groups/g/join", body: `{"topics":[]}`, status: 400},
			{method: "POST", path: "/groups/g/join", body: `{"topics":["orders","none"]}`, status: 404},
			beat("m_none", 1, `{"status":"unknown_member","current_generation":0}`),
			{method: "POST", path: "/groups/g/leave", body: `{"member_id":"m_none"}`, status: 204},
			{method: "GET", path: "/groups/g/assignment?member_id=m_none", status: 404},
		})

		first := join(t, api, "g", `{"topics":["orders","billing"],"member_id":null}`)
		require.Regexp(t, "^m_[0-9a-f]{32}$", first.MemberID)
		require.EqualValues(t, 1, first.Generation)
		require.Equal(t, []string{"billing/0", "orders/0", "orders/1", "orders/2"}, first.partitions())
		beat(first.MemberID, 1, `{"status":"ok","generation":1}`).run(t, api)

		// An even share for the second, and the first keeps the rest.
		second := join(t, api, "g", `{"topics":["orders","billing"]}`)
		require.EqualValues(t, 2, second.Generation)
		beat(first.MemberID, 1, `{"status":"rebalance_required","current_generation":2}`).run(t, api)
		kept := assignment(t, api, "g", first.MemberID)
		require.Len(t, kept.Assignment, 2)
		require.Len(t, second.Assignment, 2)
		require.ElementsMatch(t, first.partitions(), slices.Concat(kept.partitions(), second.partitions()))
		beat(first.MemberID, 2, `{"status":"ok","generation":2}`).run(t, api)

		// Who names itself commits what is its own, and only as long as it is.
		commit := func(m membership, generation, at int, status int) step {
			return step{
				method: "POST", path: "/groups/g/commit", status: status,
				body: fmt.Sprintf(`{"topic":%q,"partition":%d,"offset":0,"member_id":%q,"generation":%d}`,
					m.Assignment[at].Topic, m.Assignment[at].Partition, m.MemberID, generation),
			}
		}
		kept.MemberID = first.MemberID
		theirs := second
		theirs.MemberID = first.MemberID
		steps(t, api, []step{commit(kept, 2, 0, 204), commit(kept, 1, 0, 409), commit(theirs, 2, 0, 409), commit(second, 2, 1, 204)})

		// Joining again with the same changes nothing, with other topics it does.
		again := join(t, api, "g", fmt.Sprintf(`{"topics":["billing","orders"],"member_id":%q}`, second.MemberID))
		require.Equal(t, second, again)
		less := join(t, api, "g", fmt.Sprintf(`{"topics":["billing"],"member_id":%q}`, second.MemberID))
		require.EqualValues(t, 3, less.Generation)
		require.Equal(t, []string{"billing/0"}, less.partitions())
		require.Equal(t, []string{"orders/0", "orders/1", "orders/2"}, assignment(t, api, "g", first.MemberID).partitions())

		cluster.Restart(t, s)
		beat(first.MemberID, 3, `{"status":"ok","generation":3}`).run(t, api)
		require.Equal(t, []string{"billing/0"}, assignment(t, api, "g", second.MemberID).partitions())

		steps(t, api, []step{
			{method: "POST", path: "/groups/g/leave", body: fmt.Sprintf(`{"member_id":%q}`, first.MemberID), status: 204},
			beat(first.MemberID, 3, `{"status":"unknown_member","current_generation":4}`),
			beat(second.MemberID, 3, `{"status":"rebalance_required","current_generation":4}`),
			{method: "DELETE", path: "/topics/billing", status: 200, want: `{"name":"billing","partitions":1}`},
		})
		// A topic that goes is a rebalance, too.
		require.Eventually(t, func() bool { return assignment(t, api, "g", second.MemberID).Generation == 5 }, patience, 10*time.Millisecond)
		beat(second.MemberID, 4, `{"status":"rebalance_required","current_generation":5}`).run(t, api)
		require.Empty(t, assignment(t, api, "g", second.MemberID).Assignment)
	})
}

func TestSilentMembersAreRemoved(t *testing.T) {
	const timeout = 2 * time.Second
	o := cluster.Options{Flags: []string{"--coord-member-timeout", timeout.String(), "--coord-expire-interval", "50ms"}}
	cluster.OnEach(t, o, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		require.NoError(t, api.CreateTopic(t.Context(), "orders", 2, nil))
		for round := 0; !removesTheSilent(t, api, fmt.Sprint("g", round), timeout); round++ {
		}
	})
}

// removesTheSilent has one member of two stay away from a new group. It is false when
// the machine stood still for so long that the other could not be heard of in time.
func removesTheSilent(t *testing.T, api *httpapi.Client, group string, timeout time.Duration) bool {
	t.Helper()
	path := "/groups/" + group
	heard := time.Now()
	stays := join(t, api, group, `{"topics":["orders"]}`)
	goes := join(t, api, group, `{"topics":["orders"]}`)
	pace := time.NewTicker(50 * time.Millisecond)
	defer pace.Stop()
	for {
		<-pace.C
		asked := time.Now()
		answer, err := api.Do(t.Context(), http.MethodPost, path+"/heartbeat", fmt.Appendf(nil, `{"member_id":%q,"generation":2}`, stays.MemberID))
		require.NoError(t, err)
		if time.Since(heard) >= timeout {
			return false
		}
		heard = asked
		require.Len(t, goes.Assignment, 1)
		if string(answer.Body) == `{"status":"rebalance_required","current_generation":3}` {
			break
		}
		require.Equal(t, `{"status":"ok","generation":2}`, string(answer.Body))
	}
	mine, err := api.Do(t.Context(), http.MethodGet, path+"/assignment?member_id="+stays.MemberID, nil)
	require.NoError(t, err)
	gone, err := api.Do(t.Context(), http.MethodPost, path+"/heartbeat", fmt.Appendf(nil, `{"member_id":%q,"generation":2}`, goes.MemberID))
	require.NoError(t, err)
	back := join(t, api, group, fmt.Sprintf(`{"topics":["orders"],"member_id":%q}`, goes.MemberID))
	if time.Since(heard) >= timeout {
		return false
	}
	require.Equal(t, 200, mine.Status, "%s", mine.Body)
	var m membership
	require.NoError(t, json.Unmarshal(mine.Body, &m))
	require.Equal(t, []string{"orders/0", "orders/1"}, m.partitions())
	require.Equal(t, `{"status":"unknown_member","current_generation":3}`, string(gone.Body))
	require.Equal(t, goes.MemberID, back.MemberID)
	require.EqualValues(t, 4, back.Generation)
	return true
}

// TestMembersSurviveKill: a coordinator that comes back from kill -9 has every
// member, and no partition has two of them.
func TestMembersSurviveKill(t *testing.T) {
	p := cluster.NewProcess(t, cluster.Options{})
	cluster.Start(t, p)
	api := connect(t, p.HTTP())
	const partitions = 20
	require.NoError(t, api.CreateTopic(t.Context(), "orders", partitions, nil))
	var members []membership
	for range 5 {
		members = append(members, join(t, api, "g", `{"topics":["orders"]}`))
	}
	require.EqualValues(t, 5, members[4].Generation)
	shares := func() map[string]string {
		owners := make(map[string]string)
		for _, m := range members {
			got := assignment(t, api, "g", m.MemberID)
			require.EqualValues(t, 5, got.Generation)
			require.Len(t, got.Assignment, partitions/len(members))
			for _, partition := range got.partitions() {
				require.Empty(t, owners[partition], "two have %s", partition)
				owners[partition] = m.MemberID
			}
		}
		require.Len(t, owners, partitions)
		return owners
	}
	before := shares()
	for range 3 {
		p.Kill()
		cluster.Start(t, p)
		require.True(t, maps.Equal(before, shares()))
		for _, m := range members {
			beat(m.MemberID, 5, `{"status":"ok","generation":5}`).run(t, api)
		}
	}

	// Killed while members join: who was answered is a member.
	var joined struct {
		sync.Mutex
		ids []string
	}
	var joining sync.WaitGroup
	for range 4 {
		joining.Go(func() {
			for range 50 {
				answer, err := api.Do(t.Context(), http.MethodPost, "/groups/h/join", []byte(`{"topics":["orders"]}`))
				if err != nil || answer.Status != 200 {
					return
				}
				var m membership
				if json.Unmarshal(answer.Body, &m) != nil {
					return
				}
				joined.Lock()
				joined.ids = append(joined.ids, m.MemberID)
				joined.Unlock()
			}
		})
	}
	require.Eventually(t, func() bool {
		joined.Lock()
		defer joined.Unlock()
		return len(joined.ids) >= 10
	}, patience, time.Millisecond)
	p.Kill()
	joining.Wait()
	cluster.Start(t, p)
	owners := make(map[string]string)
	for _, id := range joined.ids {
		for _, partition := range assignment(t, api, "h", id).partitions() {
			require.Empty(t, owners[partition], "two have %s", partition)
			owners[partition] = id
		}
	}
}

// TestAGroupIsDeleted: beyond the document. What a group had is gone, and nobody who
// was a member before can take the new one's generation for its own.
func TestAGroupIsDeleted(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		steps(t, api, session)
		remove := func(status int, want string) step {
			return step{method: "DELETE", path: "/groups/analytics", status: status, want: want}
		}
		stale := step{method: "POST", path: "/groups/analytics/commit", status: 409,
			body: `{"topic":"orders","partition":0,"offset":1,"member_id":"m","generation":1}`}
		member := step{method: "POST", path: "/groups/analytics/join", body: `{"topics":["orders"],"member_id":"m"}`, status: 200,
			want: `{"member_id":"m","generation":1,"assignment":[{"topic":"orders","partition":0},{"topic":"orders","partition":1}]}`}
		steps(t, api, []step{
			{method: "DELETE", path: "/groups/none", status: 404, want: `{"error":"the group \"none\" does not exist"}`},
			member,
			remove(409, `{"error":"the group \"analytics\" still has members (1); it can be deleted when they have left"}`),
			{method: "POST", path: "/groups/analytics/leave", body: `{"member_id":"m"}`, status: 204},
			remove(204, ""),
			remove(404, `{"error":"the group \"analytics\" does not exist"}`),
			{method: "GET", path: "/groups/analytics/offsets", status: 200, want: `{"offsets":{}}`},
			stale,
		})
		cluster.Restart(t, s)
		member.want = `{"member_id":"m","generation":3,"assignment":[{"topic":"orders","partition":0},{"topic":"orders","partition":1}]}`
		steps(t, api, []step{
			{method: "GET", path: "/groups/analytics/offsets", status: 200, want: `{"offsets":{}}`},
			stale,
			member,
			stale,
			{method: "GET", path: "/groups/analytics/consume?topic=orders&partition=0&max_records=1", status: 200,
				want: `{"records":[{"partition":0,"offset":0,"timestamp_ms":TIME,"key":"user-1","value":"checkout"}],"next_offset":1,"high_watermark":1}`},
		})
	})
}

func TestOffsetsAreReset(t *testing.T) {
	cluster.OnEach(t, cluster.Options{}, func(t *testing.T, s cluster.Server) {
		api := connect(t, s.HTTP())
		steps(t, api, session)
		steps(t, api, []step{
			{method: "POST", path: "/groups/analytics/commit", body: `{"topic":"orders","partition":1,"offset":1}`, status: 204},
			{method: "POST", path: "/groups/another/commit", body: `{"topic":"orders","partition":0,"offset":1}`, status: 204},
			{method: "POST", path: "/topics", body: `{"name":"billing","partitions":1}`, status: 201, want: `{"name":"billing","partitions":1}`},
			{method: "POST", path: "/groups/another/commit", body: `{"topic":"billing","partition":0,"offset":4}`, status: 204},
			{method: "POST", path: "/admin/reset-offsets", body: `{"topic":"none"}`, status: 404},
			{method: "POST", path: "/admin/reset-offsets", body: `{}`, status: 400},
			{method: "POST", path: "/admin/reset-offsets", body: `{"topic":"orders"}`, status: 200, want: `{"groups_affected":2,"entries_reset":3}`},
			{method: "GET", path: "/groups/analytics/offsets", status: 200, want: `{"offsets":{"orders":{"0":0,"1":0}}}`},
			{method: "GET", path: "/groups/another/offsets", status: 200, want: `{"offsets":{"billing":{"0":4},"orders":{"0":0}}}`},
		})
		cluster.Restart(t, s)
		steps(t, api, []step{
			{method: "GET", path: "/groups/another/offsets", status: 200, want: `{"offsets":{"billing":{"0":4},"orders":{"0":0}}}`},
			{method: "GET", path: "/groups/analytics/consume?topic=orders&partition=0",
				status: 200, want: `{"records":[{"partition":0,"offset":0,"timestamp_ms":TIME,"key":"user-1","value":"checkout"}],"next_offset":1,"high_watermark":1}`},
		})
	})
}
