package common

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
)

// keyed adds a key to each request.
type keyed struct {
	http.RoundTripper
	secret string
}

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Es-Key", k.secret)
	return k.RoundTripper.RoundTrip(r)
}

func connectAs(t *testing.T, base, secret string) *httpapi.Client {
	api := connect(t, base)
	api.HTTP.Transport = keyed{api.HTTP.Transport, secret}
	return api
}

// newKey makes a key that may read the topics under a prefix.
func newKey(t *testing.T, admin *httpapi.Client, name, prefix string) (secret string) {
	t.Helper()
	answer, err := admin.Do(t.Context(), "POST", "/admin/keys",
		fmt.Appendf(nil, `{"name":%q,"acls":[{"action":"read","topic_prefix":%q}]}`, name, prefix))
	require.NoError(t, err)
	require.Equal(t, 201, answer.Status, "%s", answer.Body)
	var made struct {
		Secret string `json:"secret"`
	}
	require.NoError(t, json.Unmarshal(answer.Body, &made))
	return made.Secret
}

// TestGroupsBelongToKeys: a group is the first key's that joined it or committed
// to it, and a global admin's; a member is the key's that made it.
func TestGroupsBelongToKeys(t *testing.T) {
	cluster.OnEach(t, cluster.Options{Flags: []string{"--auth", "required"}}, func(t *testing.T, s cluster.Server) {
		admin := connectAs(t, s.HTTP(), cluster.AdminKey(t, s))
		require.NoError(t, admin.CreateTopic(t.Context(), "orders", 2, nil))
		require.NoError(t, admin.CreateTopic(t.Context(), "secret", 1, nil))
		first := connectAs(t, s.HTTP(), newKey(t, admin, "first", "orders"))
		second := connectAs(t, s.HTTP(), newKey(t, admin, "second", "orders"))

		steps(t, first, []step{
			{method: "POST", path: "/groups/j/join", body: `{"topics":["orders","secret"]}`, status: 403},
			{method: "POST", path: "/groups/j/join", body: `{"topics":["orders"],"member_id":"m"}`, status: 200,
				want: `{"member_id":"m","generation":1,"assignment":[{"topic":"orders","partition":0},{"topic":"orders","partition":1}]}`},
			{method: "POST", path: "/groups/c/commit", body: `{"topic":"orders","partition":0,"offset":1}`, status: 204},
			{method: "POST", path: "/admin/reset-offsets", body: `{"topic":"orders"}`, status: 403},
		})
		check := func() {
			for _, group := range []string{"j", "c"} {
				path := "/groups/" + group
				steps(t, second, []step{
					{method: "POST", path: path + "/join", body: `{"topics":["orders"]}`, status: 403},
					{method: "POST", path: path + "/commit", body: `{"topic":"orders","partition":0,"offset":1}`, status: 403},
					{method: "POST", path: path + "/heartbeat", body: `{"member_id":"m","generation":1}`, status: 403},
					{method: "POST", path: path + "/leave", body: `{"member_id":"m"}`, status: 403},
					{method: "GET", path: path + "/assignment?member_id=m", status: 403},
					{method: "GET", path: path + "/offsets", status: 403},
					{method: "GET", path: path + "/consume?topic=orders&partition=0", status: 403},
				})
			}
			steps(t, first, []step{beatOf("j", "m", `{"status":"ok","generation":1}`)})
			steps(t, admin, []step{
				beatOf("j", "m", `{"status":"ok","generation":1}`),
				{method: "GET", path: "/groups/c/offsets", status: 200, want: `{"offsets":{"orders":{"0":1}}}`},
			})
		}
		check()
		cluster.Restart(t, s)
		check()

		steps(t, admin, []step{{method: "POST", path: "/groups/j/join", body: `{"topics":["secret"],"member_id":"a"}`, status: 200,
			want: `{"member_id":"a","generation":2,"assignment":[{"topic":"secret","partition":0}]}`}})
		steps(t, first, []step{
			{method: "POST", path: "/groups/j/leave", body: `{"member_id":"a"}`, status: 403},
			{method: "GET", path: "/groups/j/assignment?member_id=a", status: 403},
		})
	})
}

func beatOf(group, member, want string) step {
	return step{
		method: "POST", path: "/groups/" + group + "/heartbeat",
		body: fmt.Sprintf(`{"member_id":%q,"generation":1}`, member), status: 200, want: want,
	}
}
