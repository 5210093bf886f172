package directory

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator"
	"github.com/sluiceio/sluice/services/gateway"
	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/lease/etcdtest"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func TestFindFollowsTheRows(t *testing.T) {
	etcd := etcdtest.Start(t)
	directory := New("b", etcd, slog.New(slog.DiscardHandler))

	waiting, giveUp := context.WithTimeout(t.Context(), time.Millisecond)
	defer giveUp()
	_, err := directory.Find(waiting, gateway.RoleRegistry)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nothing was read yet")

	put(t, etcd, &persistv1.NodeRow{Id: "a", Roles: []string{"registry", "storage"}, Address: "127.0.0.1:1"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- directory.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})

	require.Equal(t, []gateway.Node{{ID: "a", Address: "127.0.0.1:1"}}, find(t, directory, "registry"))
	require.Empty(t, find(t, directory, "coordinator"))

	put(t, etcd, &persistv1.NodeRow{Id: "b", Roles: []string{"registry"}})
	_, err = etcd.Put(t.Context(), coordinator.NodeKey("c"), "\xff")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		nodes := find(t, directory, "registry")
		return len(nodes) == 2 && nodes[0].ID == "b"
	}, time.Minute, time.Millisecond, "the node itself comes first, and a row that cannot be read is left out")

	_, err = etcd.Delete(t.Context(), coordinator.NodeKey("b"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(find(t, directory, "registry")) == 1 }, time.Minute, time.Millisecond)
}

func find(t *testing.T, directory *Directory, role string) []gateway.Node {
	t.Helper()
	nodes, err := directory.Find(t.Context(), role)
	require.NoError(t, err)
	return nodes
}

func put(t *testing.T, etcd *clientv3.Client, row *persistv1.NodeRow) {
	t.Helper()
	key, value, err := coordinator.NodeRegistration(row)
	require.NoError(t, err)
	_, err = etcd.Put(t.Context(), key, string(value))
	require.NoError(t, err)
}
