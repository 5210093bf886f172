package meta_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/elect"
	"github.com/sluiceio/sluice/services/coordinator/internal/meta"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/lease/etcdtest"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "A.b-c_9", "_x", "...", strings.Repeat("x", 249)} {
		require.NoError(t, meta.CheckName(name), name)
	}
	for _, name := range []string{
		"", ".", "..", "a b", "a/b", "ü", "a\x00", "a\n", strings.Repeat("x", 250), "__x", "__consumer_offsets", "__transaction_state",
	} {
		require.Equal(t, errs.InvalidArgument, errs.KindOf(meta.CheckName(name)), "%q", name)
	}
}

func TestConfigValuesAreCheckedAndKeptInOneSpelling(t *testing.T) {
	got, err := meta.ApplyConfig(nil, map[string]string{
		"cleanup.policy":                 " delete , compact ",
		"retention.ms":                   "-1",
		"segment.bytes":                  "1024",
		"compression.type":               "zstd",
		"preallocate":                    "TRUE",
		"min.cleanable.dirty.ratio":      "0.25",
		"max.message.bytes":              "007",
		"message.timestamp.after.max.ms": "9223372036854775807",
		"sluice.key.hash":                "murmur2",
	}, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"cleanup.policy":                 "compact,delete",
		"retention.ms":                   "-1",
		"segment.bytes":                  "1024",
		"compression.type":               "zstd",
		"preallocate":                    "true",
		"min.cleanable.dirty.ratio":      "0.25",
		"max.message.bytes":              "7",
		"message.timestamp.after.max.ms": "9223372036854775807",
		"sluice.key.hash":                "murmur2",
	}, got)
}

func TestConfigsThatCannotBe(t *testing.T) {
	for _, set := range []map[string]string{
		{"retention": "1"},
		{"": "1"},
		{"retention.ms": "-2"},
		{"retention.ms": "1.5"},
		{"retention.ms": ""},
		{"retention.bytes": "9223372036854775808"},
		{"segment.bytes": "1023"},
		{"segment.bytes": "2147483648"},
		{"segment.ms": "0"},
		{"cleanup.policy": "compress"},
		{"cleanup.policy": ""},
		{"compression.type": "brotli"},
		{"message.timestamp.type": "createtime"},
		{"min.cleanable.dirty.ratio": "1.1"},
		{"min.cleanable.dirty.ratio": "NaN"},
		{"preallocate": "yes"},
		{"sluice.key.hash": "md5"},
		{"leader.replication.throttled.replicas": strings.Repeat("x", 5000)},
		{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"},
		{"local.retention.ms": "10", "retention.ms": "9"},
		{"local.retention.bytes": "-1", "retention.bytes": "9"},
		{"remote.storage.enable": "true", "cleanup.policy": "compact"},
	} {
		_, err := meta.ApplyConfig(nil, set, nil)
		require.Equal(t, errs.InvalidArgument, errs.KindOf(err), "%v", set)
		require.Equal(t, "INVALID_CONFIG", errs.Reason(err))
	}
}

func TestConfigChangesAreAllOrNothing(t *testing.T) {
	before := map[string]string{"retention.ms": "5", "segment.bytes": "2048"}
	_, err := meta.ApplyConfig(before, map[string]string{"retention.ms": "6", "segment.bytes": "1"}, nil)
	require.Error(t, err)
	_, err = meta.ApplyConfig(before, map[string]string{"retention.ms": "6"}, []string{"retention.ms"})
	require.Error(t, err)
	_, err = meta.ApplyConfig(before, nil, []string{"nonsense"})
	require.Error(t, err)
	got, err := meta.ApplyConfig(before, map[string]string{"retention.ms": "6"}, []string{"segment.bytes", "flush.ms"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"retention.ms": "6"}, got)
	require.Equal(t, map[string]string{"retention.ms": "5", "segment.bytes": "2048"}, before)
	// What contradicts may be in what was there before.
	_, err = meta.ApplyConfig(map[string]string{"min.compaction.lag.ms": "10"}, map[string]string{"max.compaction.lag.ms": "9"}, nil)
	require.Error(t, err)
}

// lead puts a leader's key.
func lead(t *testing.T, etcd *clientv3.Client, key string) elect.Term {
	t.Helper()
	resp, err := etcd.Put(t.Context(), key, "node")
	require.NoError(t, err)
	return elect.Term{Key: key, Revision: resp.Header.Revision}
}

func row(n byte, name string) *persistv1.TopicRow {
	r := &persistv1.TopicRow{Id: append(make([]byte, 15), n), Name: name}
	r.Nodes, r.Partitions = rows.Partitions([][]string{{"a"}})
	return r
}

func TestADeposedLeaderChangesNothing(t *testing.T) {
	etcd := etcdtest.Start(t)
	ctx := t.Context()
	store := meta.NewStore(etcd)
	old := lead(t, etcd, "/l/1")
	created, err := store.Create(ctx, old, row(1, "orders"))
	require.NoError(t, err)
	_, err = etcd.Delete(ctx, "/l/1")
	require.NoError(t, err)
	// Leading again under the same key is another term.
	now := lead(t, etcd, "/l/1")

	calls := map[string]func(elect.Term) error{
		"create": func(term elect.Term) error { _, err := store.Create(ctx, term, row(2, "other")); return err },
		"config": func(term elect.Term) error {
			_, err := store.UpdateConfig(ctx, term, "orders", map[string]string{"retention.ms": "1"}, nil)
			return err
		},
		"withdraw": func(term elect.Term) error { _, _, err := store.Withdraw(ctx, term, created); return err },
		"delete":   func(term elect.Term) error { _, err := store.Delete(ctx, term, "orders"); return err },
		"forget":   func(term elect.Term) error { return store.Forget(ctx, term, created.ID()) },
	}
	for name, call := range calls {
		require.ErrorIs(t, call(old), meta.ErrNotLeader, name)
	}
	got, err := store.Get(ctx, "orders")
	require.NoError(t, err)
	require.Equal(t, created.Version, got.Version)
	for _, name := range []string{"create", "config", "delete"} {
		require.NoError(t, calls[name](now), name)
	}
	resp, err := etcd.Get(ctx, rows.DeletingKey(created.ID()))
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)
	require.NoError(t, calls["forget"](now))
	resp, err = etcd.Get(ctx, rows.DeletingKey(created.ID()))
	require.NoError(t, err)
	require.Empty(t, resp.Kvs)
	require.NoError(t, calls["forget"](now), "forgotten twice is forgotten")
}

func TestNamesAreUniqueAndFreeAfterDeletion(t *testing.T) {
	etcd := etcdtest.Start(t)
	ctx := t.Context()
	store := meta.NewStore(etcd)
	term := lead(t, etcd, "/l/1")
	created, err := store.Create(ctx, term, row(1, "orders"))
	require.NoError(t, err)
	_, err = store.Create(ctx, term, row(2, "orders"))
	require.ErrorIs(t, err, meta.ErrTopicExists)
	marked, err := store.Delete(ctx, term, "orders")
	require.NoError(t, err)
	require.True(t, marked.Deleting)
	require.Greater(t, marked.Version, created.Version)
	_, err = store.Get(ctx, "orders")
	require.ErrorIs(t, err, meta.ErrTopicNotFound)
	_, err = store.Create(ctx, term, row(3, "orders"))
	require.NoError(t, err)
	_, err = store.Get(ctx, "../nodes/a")
	require.ErrorIs(t, err, meta.ErrTopicNotFound)

	internal := row(4, "__own")
	internal.Internal = true
	_, err = store.Create(ctx, term, internal)
	require.NoError(t, err)
	_, err = store.Delete(ctx, term, "__own")
	require.ErrorIs(t, err, meta.ErrInternalTopic)
}

func TestWhoGivesUpIsToldSo(t *testing.T) {
	etcd := etcdtest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := meta.NewStore(etcd).Get(ctx, "orders")
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, meta.ErrNoAnswer)
}

func TestTheFirstCoordinatorNamesTheCluster(t *testing.T) {
	etcd := etcdtest.Start(t)
	ctx := t.Context()
	first, err := meta.EnsureCluster(ctx, etcd)
	require.NoError(t, err)
	require.Len(t, first.Id, 16)
	second, err := meta.EnsureCluster(ctx, etcd)
	require.NoError(t, err)
	require.Equal(t, first.Id, second.Id)

	first.FormatVersion = meta.FormatVersion + 1
	value, err := proto.Marshal(first)
	require.NoError(t, err)
	_, err = etcd.Put(ctx, rows.Cluster, string(value))
	require.NoError(t, err)
	_, err = meta.EnsureCluster(ctx, etcd)
	require.ErrorIs(t, err, meta.ErrNewerFormat)
}
