package sluice_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/registry"
	"github.com/sluiceio/sluice/services/sluice"
)

// guarded is a node that asks for keys, and its HTTP API.
type guarded struct {
	*running
	client *http.Client
	// The bootstrap key's secret; empty where another node has it.
	admin string
}

func startGuarded(t *testing.T, dir string, etcd []string, roles ...sluice.Role) *guarded {
	t.Helper()
	cfg := configure(t, dir, etcd, roles...)
	cfg.Registry.Auth = registry.AuthRequired
	g := &guarded{running: startWith(t, cfg), client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(g.client.CloseIdleConnections)
	secret, err := os.ReadFile(filepath.Join(dir, "bootstrap.key"))
	if err == nil {
		g.admin = strings.TrimSpace(string(secret))
	}
	return g
}

// answer is what came back.
type answer struct {
	status int
	body   string
	header http.Header
}

func (g *guarded) try(t *testing.T, key, method, path, body string) (answer, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+g.node.Doors()["http"]+path, strings.NewReader(body))
	require.NoError(t, err)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return answer{resp.StatusCode, string(text), resp.Header}, nil
}

func (g *guarded) do(t *testing.T, key, method, path, body string) answer {
	t.Helper()
	got, err := g.try(t, key, method, path, body)
	require.NoError(t, err)
	return got
}

func (g *guarded) must(t *testing.T, want int, key, method, path, body string) string {
	t.Helper()
	got := g.do(t, key, method, path, body)
	require.Equal(t, want, got.status, "%s %s: %s", method, path, got.body)
	return got.body
}

// made is a key that was made over HTTP.
type made struct {
	Key struct {
		ID string `json:"key_id"`
	} `json:"key"`
	Secret string `json:"secret"`
}

func (g *guarded) key(t *testing.T, admin, body string) made {
	t.Helper()
	var m made
	require.NoError(t, json.Unmarshal([]byte(g.must(t, 201, admin, "POST", "/admin/keys", body)), &m))
	return m
}

// The document's section on keys, sentence by sentence.
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	g := startGuarded(t, dir, nil, sluice.AllRoles()...)
	info, err := os.Stat(filepath.Join(dir, "bootstrap.key"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	admin := g.admin

	// The key is shown once, with everything else that it is.
	body := g.must(t, 201, admin, "POST", "/admin/keys", `{
	  "name": "orders-writer",
	  "acls": [{ "action": "write", "topic_prefix": "orders." }],
	  "produce_bytes_per_sec": 1048576,
	  "consume_bytes_per_sec": 10485760
	}`)
	require.Regexp(t, `^\{"key":\{"key_id":"key_[0-9a-f]{12}","name":"orders-writer","acls":\[\{"action":"write","topic_prefix":"orders."\}\],`+
		`"produce_bytes_per_sec":1048576,"consume_bytes_per_sec":10485760,"created_at_ms":\d{13},"disabled":false\},"secret":"esk_[A-Za-z0-9_-]{43}"\}$`, body)
	var writer made
	require.NoError(t, json.Unmarshal([]byte(body), &writer))
	body = g.must(t, 201, admin, "POST", "/admin/keys", `{"name":"plain"}`)
	require.Contains(t, body, `"acls":[],"produce_bytes_per_sec":null,"consume_bytes_per_sec":null,`)

	body = g.must(t, 200, admin, "GET", "/admin/keys", "")
	require.Regexp(t, `^\{"keys":\[\{"key_id":"key_`, body)
	require.Equal(t, 3, strings.Count(body, `"key_id"`))
	require.NotContains(t, body, "secret")
	require.NotContains(t, body, "esk_")

	for body, want := range map[string]string{
		`{}`: "name must be given",
		`{"name":"n","acls":[{"action":"own","topic_prefix":"*"}]}`:    `acls[0].action must be read, write or admin, got \"own\"`,
		`{"name":"n","acls":[{"action":"read"}]}`:                      "acls[0].topic_prefix must not be empty; * is every topic",
		`{"name":"n","acls":[{"action":"read","topic_prefix":"a b"}]}`: `acls[0].topic_prefix must be * or letters, digits, '.', '-' and '_', got \"a b\"`,
		`{"name":"n","produce_bytes_per_sec":0}`:                       "produce_bytes_per_sec must be more than 0, or absent for no limit, got 0",
		`{"name":"n","consume_bytes_per_sec":-1}`:                      "consume_bytes_per_sec must be more than 0, or absent for no limit, got -1",
		`{"name":"` + strings.Repeat("n", 201) + `"}`:                  "name must have at most 200 characters, got 201",
	} {
		require.Equal(t, `{"error":"`+want+`"}`, g.must(t, 400, admin, "POST", "/admin/keys", body))
		require.NotContains(t, g.must(t, 403, writer.Secret, "POST", "/admin/keys", body), want, "what is wrong is none of others' business")
	}

	// What is no request at all is nobody's who has no key.
	require.Equal(t, `{"error":"name must be a string, got a number"}`, g.must(t, 400, admin, "POST", "/admin/keys", `{"name":7}`))
	g.must(t, 401, "", "POST", "/admin/keys", `{"name":7}`)

	// Both headers, and not two keys at once.
	for _, header := range []http.Header{
		{"Authorization": {"Bearer " + admin}}, {"X-Es-Key": {admin}}, {"Authorization": {"Bearer " + admin}, "X-Es-Key": {admin}},
	} {
		require.Equal(t, 200, g.with(t, header).status)
	}
	for _, header := range []http.Header{
		{"Authorization": {"Bearer " + admin}, "X-Es-Key": {writer.Secret}},
		{"X-Es-Key": {admin, writer.Secret}},
		{"Authorization": {"Bearer " + admin, "Bearer " + writer.Secret}},
	} {
		got := g.with(t, header)
		require.Equal(t, 400, got.status)
		require.NotContains(t, got.body, "esk_")
	}
	for _, header := range []http.Header{
		{}, {"X-Es-Key": {"esk_nonsense"}}, {"Authorization": {"Basic " + admin}}, {"Authorization": {admin}},
		{"X-Es-Key": {strings.Repeat("x", 5000)}}, {"Grpc-Metadata-X-Es-Key": {admin}},
	} {
		got := g.with(t, header)
		require.Equal(t, 401, got.status, header)
		require.Equal(t, "Bearer", got.header.Get("Www-Authenticate"))
		require.NotContains(t, got.body, admin)
	}
	// The Host is anybody's now.
	require.NotEqual(t, 403, g.with(t, http.Header{"X-Es-Key": {admin}, "Host": {"sluice.example"}}).status)

	// Revoked: at once, for good, and again.
	g.must(t, 200, writer.Secret, "GET", "/topics", "")
	require.Empty(t, g.must(t, 204, admin, "DELETE", "/admin/keys/"+writer.Key.ID, ""))
	require.Equal(t, `{"error":"the key is not known"}`, g.must(t, 401, writer.Secret, "GET", "/topics", ""))
	require.Contains(t, g.must(t, 200, admin, "GET", "/admin/keys", ""), `"disabled":true`)
	g.must(t, 204, admin, "DELETE", "/admin/keys/"+writer.Key.ID, "")
	g.must(t, 404, admin, "DELETE", "/admin/keys/key_000000000000", "")

	// Over gRPC likewise.
	topics := g.topics
	_, err = topics.ListTopics(t.Context(), &logv1.ListTopicsRequest{})
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	for name, value := range map[string]string{"authorization": "Bearer " + admin, "x-es-key": admin} {
		_, err = topics.ListTopics(metadata.AppendToOutgoingContext(t.Context(), name, value), &logv1.ListTopicsRequest{})
		require.NoError(t, err)
	}
	both := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+admin, "x-es-key", writer.Secret)
	_, err = topics.ListTopics(both, &logv1.ListTopicsRequest{})
	require.Equal(t, codes.InvalidArgument, status.Code(err))

	// A restart changes nothing.
	g.stop(t)
	require.NoError(t, os.Remove(filepath.Join(dir, "bootstrap.key")))
	g = startGuarded(t, dir, nil, sluice.AllRoles()...)
	require.Empty(t, g.admin)
	g.must(t, 200, admin, "GET", "/topics", "")
	g.must(t, 401, writer.Secret, "GET", "/topics", "")

	// No file has a secret. A node that runs makes files and removes them.
	g.stop(t)
	for _, secret := range []string{admin, writer.Secret} {
		requireNowhere(t, dir, []byte(secret[4:]))
	}
}

func (g *guarded) with(t *testing.T, header http.Header) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.node.Doors()["http"]+"/topics", nil)
	require.NoError(t, err)
	req.Header = header
	req.Host = header.Get("Host")
	resp, err := g.client.Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return answer{resp.StatusCode, string(text), resp.Header}
}

func requireNowhere(t *testing.T, dir string, secret []byte) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		require.False(t, bytes.Contains(text, secret), "%s has a secret", path)
		return err
	}))
}

// A revocation that was answered holds on every gateway, for those too that used
// the key all the time and for reads that wait.
func TestRevocationHoldsOnEveryGateway(t *testing.T) {
	etcd := startEtcd(t)
	a := startGuarded(t, t.TempDir(), etcd, sluice.AllRoles()...)
	b := startGuarded(t, t.TempDir(), etcd, sluice.AllRoles()...)
	c := startGuarded(t, t.TempDir(), etcd, sluice.Gateway)
	require.NotEmpty(t, a.admin)
	require.Empty(t, b.admin, "there is one first key")
	a.must(t, 201, a.admin, "POST", "/topics", `{"name":"orders"}`)

	for round := range 3 {
		k := a.key(t, a.admin, fmt.Sprintf(`{"name":"k%d","acls":[{"action":"write","topic_prefix":"orders"}]}`, round))
		gateways := []*guarded{a, b, c}
		for _, g := range gateways {
			g.must(t, 200, k.Secret, "GET", "/topics/orders", "")
		}
		// Callers that never stop.
		var users sync.WaitGroup
		over := make(chan struct{})
		for _, g := range gateways {
			users.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
						_, _ = g.try(t, k.Secret, "GET", "/topics/orders", "")
					}
				}
			})
		}
		waiting := make(chan answer, 1)
		go func() {
			got, err := c.try(t, k.Secret, "GET", fmt.Sprintf("/topics/orders/consume?partition=0&offset=%d&max_wait_ms=30000", round), "")
			if err != nil {
				t.Errorf("consume: %v", err)
			}
			waiting <- got
		}()
		gateways[round].must(t, 204, a.admin, "DELETE", "/admin/keys/"+k.Key.ID, "")
		for _, g := range gateways {
			g.must(t, 401, k.Secret, "GET", "/topics/orders", "")
		}
		close(over)
		users.Wait()
		for _, g := range gateways {
			g.must(t, 401, k.Secret, "GET", "/topics/orders", "")
		}
		a.must(t, 200, a.admin, "POST", "/topics/orders/produce", `{"records":[{"value":"x"}]}`)
		require.Equal(t, 401, (<-waiting).status, "what waited for records gets none")
	}
}

// A gateway goes on with another registry when its own goes, and what is revoked
// there holds as well.
func TestARegistryGoes(t *testing.T) {
	etcd := startEtcd(t)
	first := startGuarded(t, t.TempDir(), etcd, sluice.Registry)
	require.NotEmpty(t, first.admin)
	second := startGuarded(t, t.TempDir(), etcd, sluice.AllRoles()...)
	gateway := startGuarded(t, t.TempDir(), etcd, sluice.Gateway)
	k := gateway.key(t, first.admin, `{"name":"k","produce_bytes_per_sec":1000}`)
	gateway.must(t, 200, k.Secret, "GET", "/topics", "")
	first.stop(t)
	for range 20 {
		gateway.must(t, 200, k.Secret, "GET", "/topics", "")
	}
	second.must(t, 204, first.admin, "DELETE", "/admin/keys/"+k.Key.ID, "")
	gateway.must(t, 401, k.Secret, "GET", "/topics", "")
	gateway.must(t, 200, first.admin, "GET", "/topics", "")
}

// A gateway that was told to ask for keys, and may be reached from everywhere for
// that, serves nobody when the registry asks for none.
func TestAGatewayWithKeysNeedsARegistryWithKeys(t *testing.T) {
	etcd := startEtcd(t)
	start(t, t.TempDir(), etcd, sluice.Storage, sluice.Coordinator, sluice.Registry)
	gateway := startGuarded(t, t.TempDir(), etcd, sluice.Gateway)
	for _, key := range []string{"", "esk_any"} {
		require.Contains(t, gateway.must(t, 503, key, "GET", "/topics", ""), "the registry does not")
	}
}

// A key's quota holds over all gateways together.
func TestQuotaHoldsOverAllGateways(t *testing.T) {
	etcd := startEtcd(t)
	a := startGuarded(t, t.TempDir(), etcd, sluice.AllRoles()...)
	b := startGuarded(t, t.TempDir(), etcd, sluice.AllRoles()...)
	a.must(t, 201, a.admin, "POST", "/topics", `{"name":"orders"}`)
	const rate = 100_000
	k := a.key(t, a.admin, fmt.Sprintf(`{"name":"k","acls":[{"action":"write","topic_prefix":"*"}],"produce_bytes_per_sec":%d,"consume_bytes_per_sec":%d}`, rate, rate/10))
	value := func(n int) string { return `{"records":[{"value":"` + strings.Repeat("x", n) + `"}]}` }
	// Both know the topic.
	a.must(t, 200, k.Secret, "POST", "/topics/orders/produce", value(1))
	require.Eventually(t, func() bool {
		return b.do(t, k.Secret, "GET", "/topics/orders", "").status == 200
	}, patience, 10*time.Millisecond)

	// More than a second's budget never goes.
	got := a.do(t, k.Secret, "POST", "/topics/orders/produce", value(rate+1))
	require.Equal(t, 429, got.status)
	require.Contains(t, got.body, "more than the key may write in a whole second")
	require.Equal(t, "1", got.header.Get("Retry-After"))

	began := time.Now()
	var mu sync.Mutex
	written, refused := 0, 0
	var senders sync.WaitGroup
	for _, g := range []*guarded{a, b, a, b} {
		senders.Go(func() {
			// Oftener than the quota allows, and not so often that nothing else runs.
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			// A machine that is busy with other things is given more time.
			for enough := false; time.Since(began) < 2*time.Second || !enough && time.Since(began) < patience; {
				<-pace.C
				got, err := g.try(t, k.Secret, "POST", "/topics/orders/produce", value(10_000))
				mu.Lock()
				switch {
				case err == nil && got.status == 200:
					written += 10_000
				case err == nil && got.status == 429:
					refused++
					after, err := strconv.Atoi(got.header.Get("Retry-After"))
					if err != nil || after < 1 || after > 10 {
						t.Errorf("Retry-After is %q", got.header.Get("Retry-After"))
					}
				default:
					t.Errorf("status %d, %v: %s", got.status, err, got.body)
				}
				enough = refused > 0 && written >= rate
				mu.Unlock()
			}
		})
	}
	senders.Wait()
	elapsed := time.Since(began).Seconds()
	require.Positive(t, refused)
	// A second's worth at once, then the rate, then what the gateways hold ahead.
	require.LessOrEqual(t, float64(written), rate*(elapsed+1)*1.1)
	// The second's worth at the start was there.
	require.GreaterOrEqual(t, written, rate)

	// Reading is charged afterwards, also on the other gateway.
	read := "/topics/orders/consume?partition=0&offset=0&max_records=10000&max_bytes=4000000"
	body := a.must(t, 200, k.Secret, "GET", read, "")
	require.Greater(t, len(body), written/2)
	for _, g := range []*guarded{a, b} {
		got := g.do(t, k.Secret, "GET", read, "")
		require.Equal(t, 429, got.status)
		after, err := strconv.Atoi(got.header.Get("Retry-After"))
		require.NoError(t, err)
		require.Positive(t, after)
		require.LessOrEqual(t, after, 11)
	}
	// Others are not concerned.
	a.must(t, 200, a.admin, "GET", read, "")
}
