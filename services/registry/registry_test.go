package registry_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/lease/etcdtest"
	"github.com/sluiceio/sluice/services/kit/rpc"
	"github.com/sluiceio/sluice/services/registry"
)

func TestMain(m *testing.M) { leaks.Main(m) }

var discard = slog.New(slog.DiscardHandler)

const (
	eventually = time.Minute
	tick       = time.Millisecond
)

func parse(t *testing.T, args ...string) registry.Config {
	t.Helper()
	var cfg registry.Config
	fs := pflag.NewFlagSet("registry", pflag.ContinueOnError)
	cfg.RegisterFlags(fs)
	require.NoError(t, fs.Parse(args))
	return cfg
}

// cluster is some registries over one etcd.
type cluster struct {
	etcd *clientv3.Client
	dir  string
	// Zero is the default.
	memory time.Duration

	mu struct {
		sync.Mutex
		nodes map[string]*node
	}
}

// node is one registry.
type node struct {
	service *registry.Service
	conn    *rpc.Local
	// Of the bootstrap key.
	file string

	auth  registryv1.AuthServiceClient
	keys  registryv1.KeyServiceClient
	quota registryv1.QuotaServiceClient

	mu struct {
		sync.Mutex
		dead, down bool
	}
	stop func()
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{etcd: etcdtest.Start(t), dir: t.TempDir()}
	c.mu.nodes = make(map[string]*node)
	return c
}

// Conn and registries are what the process gives.
func (c *cluster) Conn(_ context.Context, id, _ string) (grpc.ClientConnInterface, error) {
	c.mu.Lock()
	n := c.mu.nodes[id]
	c.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.down {
		return nil, errs.New(errs.Unavailable, "NODE_DOWN", "node %q is down", id)
	}
	return n.conn, nil
}

func (c *cluster) registries(context.Context) ([]registry.Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var alive []registry.Node
	for id, n := range c.mu.nodes {
		if n.alive() {
			alive = append(alive, registry.Node{ID: id})
		}
	}
	return alive, nil
}

func (n *node) alive() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.mu.dead
}

func (n *node) set(dead, down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.dead, n.mu.down = dead, down
}

// begin makes a registry and runs it; it may not be ready yet.
func (c *cluster) begin(t *testing.T, id, auth string) *node {
	t.Helper()
	dir := filepath.Join(c.dir, id)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	n := &node{file: filepath.Join(dir, "bootstrap.key"), conn: rpc.NewLocal(rpc.Options{Logger: discard})}
	var err error
	n.service, err = registry.New(parse(t, "--auth", auth), registry.Deps{
		Etcd: c.etcd, Alive: n.alive, Registries: c.registries, Dialer: c, BootstrapFile: n.file, Memory: c.memory,
	})
	require.NoError(t, err)
	n.service.Register(n.conn)
	n.auth, n.keys, n.quota = registryv1.NewAuthServiceClient(n.conn), registryv1.NewKeyServiceClient(n.conn), registryv1.NewQuotaServiceClient(n.conn)
	c.mu.Lock()
	c.mu.nodes[id] = n
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.service.Run(ctx) }()
	var once sync.Once
	n.stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(t, <-ended)
			n.conn.Stop()
		})
	}
	t.Cleanup(n.stop)
	return n
}

func (c *cluster) start(t *testing.T, id, auth string) *node {
	t.Helper()
	n := c.begin(t, id, auth)
	n.awaitReady(t)
	return n
}

func (n *node) awaitReady(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return n.service.Ready() == nil }, eventually, tick)
}

func (n *node) principal(t *testing.T, secret string) (*registryv1.Principal, error) {
	t.Helper()
	resp, err := n.auth.Authenticate(t.Context(), &registryv1.AuthenticateRequest{Secret: secret})
	return resp.GetPrincipal(), err
}

func (n *node) create(t *testing.T, name string) *registryv1.CreateKeyResponse {
	t.Helper()
	resp, err := n.keys.CreateKey(t.Context(), &registryv1.CreateKeyRequest{
		Name: name, Grants: []*registryv1.Grant{{Action: registryv1.Action_ACTION_WRITE, TopicPrefix: "orders."}},
		ProduceBytesPerSec: 1000, ConsumeBytesPerSec: 500,
	})
	require.NoError(t, err)
	return resp
}

func (n *node) revoke(t *testing.T, id string) error {
	t.Helper()
	_, err := n.keys.RevokeKey(t.Context(), &registryv1.RevokeKeyRequest{KeyId: id})
	return err
}

func TestConfig(t *testing.T) {
	cfg := parse(t)
	require.NoError(t, cfg.Validate())
	cfg = parse(t, "--auth", "required")
	require.NoError(t, cfg.Validate())
	cfg = parse(t, "--auth", "Off")
	require.EqualError(t, cfg.Validate(), `--auth must be off or required, got "Off"`)
	_, err := registry.New(cfg, registry.Deps{})
	require.Error(t, err)
}

func TestEveryCallerIsTheAdministratorWithoutAuthentication(t *testing.T) {
	n := newCluster(t).start(t, "a", registry.AuthOff)
	for _, secret := range []string{"", "esk_whatever"} {
		p, err := n.principal(t, secret)
		require.NoError(t, err)
		require.Equal(t, "anonymous", p.GetId())
		require.True(t, p.GetAdmin())
	}
	require.NoFileExists(t, n.file)
	// Keys can be made for later.
	require.NotEmpty(t, n.create(t, "early").GetSecret())
}

// The first start with keys leaves an administrator's, and no later one does.
func TestBootstrap(t *testing.T) {
	c := newCluster(t)
	n := c.start(t, "a", registry.AuthRequired)
	info, err := os.Stat(n.file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	secret := readSecret(t, n.file)
	p, err := n.principal(t, secret)
	require.NoError(t, err)
	require.True(t, p.GetAdmin())
	require.Equal(t, "bootstrap", p.GetName())

	require.NoError(t, os.Remove(n.file))
	n.stop()
	n = c.start(t, "a", registry.AuthRequired)
	require.NoFileExists(t, n.file)
	_, err = n.principal(t, secret)
	require.NoError(t, err)

	// Not even when every key is revoked: they are known by their ids.
	require.NoError(t, n.revoke(t, p.GetId()))
	n.stop()
	n = c.start(t, "a", registry.AuthRequired)
	require.NoFileExists(t, n.file)
}

// A start that ended between the file and the key goes on where it was.
func TestBootstrapGoesOn(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, os.MkdirAll(filepath.Join(c.dir, "a"), 0o700))
	file := filepath.Join(c.dir, "a", "bootstrap.key")
	secret := "esk_" + strings.Repeat("A", 43)
	require.NoError(t, os.WriteFile(file+".new", []byte("esk_ha"), 0o600))
	require.NoError(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	n := c.start(t, "a", registry.AuthRequired)
	p, err := n.principal(t, secret)
	require.NoError(t, err)
	require.True(t, p.GetAdmin())
	require.Equal(t, secret, readSecret(t, file))
}

// Of many processes that start at once, one makes the key and keeps its file.
func TestBootstrapRace(t *testing.T) {
	c := newCluster(t)
	var nodes []*node
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		nodes = append(nodes, c.begin(t, id, registry.AuthRequired))
	}
	var secrets []string
	for _, n := range nodes {
		n.awaitReady(t)
		if _, err := os.Stat(n.file); err == nil {
			secrets = append(secrets, readSecret(t, n.file))
		}
	}
	require.Len(t, secrets, 1)
	for _, n := range nodes {
		_, err := n.principal(t, secrets[0])
		require.NoError(t, err)
	}
	list, err := nodes[0].keys.ListKeys(t.Context(), &registryv1.ListKeysRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetKeys(), 1)
}

func readSecret(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Regexp(t, `^esk_[A-Za-z0-9_-]{43}\n$`, string(text))
	return strings.TrimSpace(string(text))
}

func TestKeys(t *testing.T) {
	c := newCluster(t)
	a, b := c.start(t, "a", registry.AuthRequired), c.start(t, "b", registry.AuthRequired)
	made := a.create(t, "orders-writer")
	require.Regexp(t, `^key_[0-9a-f]{12}$`, made.GetKey().GetKeyId())
	require.Regexp(t, `^esk_[A-Za-z0-9_-]{43}$`, made.GetSecret())
	// Every registry knows it at once.
	p, err := b.principal(t, made.GetSecret())
	require.NoError(t, err)
	require.Equal(t, made.GetKey().GetKeyId(), p.GetId())
	require.False(t, p.GetAdmin())
	require.EqualValues(t, 1000, p.GetProduceBytesPerSec())
	require.EqualValues(t, 500, p.GetConsumeBytesPerSec())
	require.Equal(t, "orders.", p.GetGrants()[0].GetTopicPrefix())

	// The secret is kept nowhere.
	rows, err := c.etcd.Get(t.Context(), "/sluice/keys/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Len(t, rows.Kvs, 2)
	for _, kv := range rows.Kvs {
		require.NotContains(t, string(kv.Value), made.GetSecret()[4:])
	}

	for _, bad := range []string{"", "esk_", made.GetSecret() + "x", made.GetSecret()[:46], strings.ToUpper(made.GetSecret()), "x"} {
		_, err := b.principal(t, bad)
		require.Equal(t, errs.Unauthenticated, errs.KindOf(err), "%q", bad)
	}

	require.NoError(t, b.revoke(t, made.GetKey().GetKeyId()))
	for _, n := range []*node{a, b} {
		_, err = n.principal(t, made.GetSecret())
		require.Equal(t, errs.Unauthenticated, errs.KindOf(err))
		require.EqualError(t, err, "the key is not known")
		list, err := n.keys.ListKeys(t.Context(), &registryv1.ListKeysRequest{})
		require.NoError(t, err)
		require.Len(t, list.GetKeys(), 2)
		require.False(t, list.GetKeys()[0].GetDisabled())
		require.True(t, list.GetKeys()[1].GetDisabled())
	}
	require.NoError(t, a.revoke(t, made.GetKey().GetKeyId()), "again")
	require.Equal(t, errs.NotFound, errs.KindOf(a.revoke(t, "key_000000000000")))
	require.Equal(t, errs.NotFound, errs.KindOf(a.revoke(t, "")))
}

func TestBadKeys(t *testing.T) {
	n := newCluster(t).start(t, "a", registry.AuthOff)
	grant := func(action registryv1.Action, prefix string) []*registryv1.Grant {
		return []*registryv1.Grant{{Action: action, TopicPrefix: prefix}}
	}
	read := registryv1.Action_ACTION_READ
	for want, req := range map[string]*registryv1.CreateKeyRequest{
		"name must be given":                                                                   {},
		"name must have at most 200 characters, got 201":                                       {Name: strings.Repeat("ä", 201)},
		"name must be text without control characters, got \"a\\nb\"":                          {Name: "a\nb"},
		"acls must have at most 100 rules, got 101":                                            {Name: "n", Grants: make([]*registryv1.Grant, 101)},
		"acls[0].action must be read, write or admin":                                          {Name: "n", Grants: grant(0, "*")},
		"acls[0].topic_prefix must not be empty; * is every topic":                             {Name: "n", Grants: grant(read, "")},
		"acls[0].topic_prefix must be * or letters, digits, '.', '-' and '_', got \"orders*\"": {Name: "n", Grants: grant(read, "orders*")},
		"acls[0].topic_prefix must have at most 249 characters, got 250":                       {Name: "n", Grants: grant(read, strings.Repeat("a", 250))},
		"produce_bytes_per_sec must be more than 0, got -1":                                    {Name: "n", ProduceBytesPerSec: -1},
		"consume_bytes_per_sec must be more than 0, got -9223372036854775808":                  {Name: "n", ConsumeBytesPerSec: -1 << 63},
	} {
		_, err := n.keys.CreateKey(t.Context(), req)
		require.EqualError(t, err, want)
		require.Equal(t, errs.InvalidArgument, errs.KindOf(err))
	}
	for _, req := range []*registryv1.CreateKeyRequest{
		{Name: strings.Repeat("ä", 200)}, {Name: "n", Grants: grant(read, "*")}, {Name: "n", Grants: grant(read, "a._-Z9")},
	} {
		_, err := n.keys.CreateKey(t.Context(), req)
		require.NoError(t, err)
	}
}

// A registry that may have missed a revocation answers nobody.
func TestARegistryThatIsOutOfTouchRefuses(t *testing.T) {
	n := newCluster(t).start(t, "a", registry.AuthRequired)
	secret := readSecret(t, n.file)
	n.set(true, false)
	_, err := n.principal(t, secret)
	require.Equal(t, errs.Unavailable, errs.KindOf(err))
	n.set(false, false)
	_, err = n.principal(t, secret)
	require.NoError(t, err)
}

// watching is a gateway that watches and acknowledges when it is told to.
type watching struct {
	stream grpc.ServerStreamingClient[registryv1.WatchKeysResponse]
	node   *node
	cancel context.CancelFunc
}

func watch(t *testing.T, n *node) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	stream, err := n.keys.WatchKeys(ctx, &registryv1.WatchKeysRequest{})
	require.NoError(t, err)
	w := &watching{stream, n, cancel}
	first := w.next(t)
	require.True(t, first.GetReset_())
	w.ack(t, first)
	return w
}

func (w *watching) next(t *testing.T) *registryv1.WatchKeysResponse {
	t.Helper()
	resp, err := w.stream.Recv()
	require.NoError(t, err)
	return resp
}

// told waits for a key to be named.
func (w *watching) told(t *testing.T, id string) *registryv1.WatchKeysResponse {
	t.Helper()
	for {
		resp := w.next(t)
		if len(resp.GetRevokedKeyIds()) > 0 {
			require.Equal(t, []string{id}, resp.GetRevokedKeyIds())
			return resp
		}
	}
}

func (w *watching) ack(t *testing.T, resp *registryv1.WatchKeysResponse) {
	t.Helper()
	_, err := w.node.keys.AckKeys(t.Context(), &registryv1.AckKeysRequest{WatchId: resp.GetWatchId(), Sequence: resp.GetSequence()})
	require.NoError(t, err)
}

// A revocation is not over before everybody who watches any registry has said so.
func TestRevocationWaitsForThoseWhoWatch(t *testing.T) {
	c := newCluster(t)
	c.memory = time.Minute
	a, b := c.start(t, "a", registry.AuthRequired), c.start(t, "b", registry.AuthRequired)
	atA, atB := watch(t, a), watch(t, b)
	made := a.create(t, "k")
	id := made.GetKey().GetKeyId()
	revoked := make(chan error, 1)
	go func() { revoked <- a.revoke(t, id) }()
	first, second := atA.told(t, id), atB.told(t, id)
	_, err := b.principal(t, made.GetSecret())
	require.Error(t, err, "whoever was told finds the key gone")
	atA.ack(t, first)
	select {
	case err := <-revoked:
		require.Fail(t, "over too early", "%v", err)
	case <-time.After(50 * time.Millisecond):
	}
	atB.ack(t, second)
	require.NoError(t, <-revoked)

	_, err = a.keys.AckKeys(t.Context(), &registryv1.AckKeysRequest{WatchId: "none"})
	require.Equal(t, errs.NotFound, errs.KindOf(err))
}

// A gateway that is gone is waited for until what it remembers is worth nothing.
func TestRevocationWaitsForNoLongerThanMemory(t *testing.T) {
	c := newCluster(t)
	c.memory = 300 * time.Millisecond
	a := c.start(t, "a", registry.AuthRequired)
	began := time.Now()
	w := watch(t, a)
	w.cancel()
	require.NoError(t, a.revoke(t, a.create(t, "k").GetKey().GetKeyId()))
	require.GreaterOrEqual(t, time.Since(began), c.memory)
}

// A registry that is gone from etcd answers nobody, so nobody waits for it; one
// that is not is waited for.
func TestRevocationWaitsForRegistries(t *testing.T) {
	c := newCluster(t)
	a, b := c.start(t, "a", registry.AuthRequired), c.start(t, "b", registry.AuthRequired)
	id := a.create(t, "k").GetKey().GetKeyId()
	b.set(false, true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := a.keys.RevokeKey(ctx, &registryv1.RevokeKeyRequest{KeyId: id})
	require.Error(t, err)
	revoked := make(chan error, 1)
	go func() { revoked <- a.revoke(t, id) }()
	b.set(true, true)
	require.NoError(t, <-revoked)
}

func TestQuota(t *testing.T) {
	n := newCluster(t).start(t, "a", registry.AuthRequired)
	id := n.create(t, "k").GetKey().GetKeyId()
	take := func(req *registryv1.TakeQuotaRequest) (*registryv1.TakeQuotaResponse, error) {
		return n.quota.TakeQuota(t.Context(), req)
	}
	got, err := take(&registryv1.TakeQuotaRequest{KeyId: id, ProduceBytes: 900, ProduceNeeded: 900, ConsumeBytes: 10})
	require.NoError(t, err)
	require.EqualValues(t, 900, got.GetProduceBytes())
	require.EqualValues(t, 10, got.GetConsumeBytes())
	// Within a second there is as much again.
	require.Eventually(t, func() bool {
		got, err = take(&registryv1.TakeQuotaRequest{KeyId: id, ProduceBytes: 900, ProduceNeeded: 900})
		return err != nil || got.GetProduceBytes() == 0
	}, eventually, tick)
	require.NoError(t, err)
	require.Positive(t, got.GetRetryAfterMs())
	_, err = take(&registryv1.TakeQuotaRequest{KeyId: id, ProduceBytes: -1})
	require.Equal(t, errs.InvalidArgument, errs.KindOf(err))
	require.NoError(t, n.revoke(t, id))
	_, err = take(&registryv1.TakeQuotaRequest{KeyId: id, ProduceBytes: 1})
	require.Equal(t, errs.NotFound, errs.KindOf(err))
}
