package grants_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
)

const (
	read  = registryv1.Action_ACTION_READ
	write = registryv1.Action_ACTION_WRITE
	admin = registryv1.Action_ACTION_ADMIN
)

func holder(action registryv1.Action, prefix string) grants.Caller {
	return grants.CallerOf(&registryv1.Principal{Grants: []*registryv1.Grant{{Action: action, TopicPrefix: prefix}}})
}

func TestPrefixes(t *testing.T) {
	for _, tc := range []struct {
		prefix, topic string
		want          bool
	}{
		{"orders", "orders", true},
		{"orders", "orders.eu", true},
		{"orders", "orders-archive", true},
		{"orders", "orders_1", true},
		{"orders", "ordersecret", false},
		{"orders", "order", false},
		{"orders.", "orders.eu", true},
		{"orders.", "orders.", true},
		{"orders.", "orders", false},
		{"orders.", "orders-eu", false},
		{"*", "anything", true},
		{"", "orders", false},
		{"*", "__sluice_shards", false},
		{"__sluice_shards", "__sluice_shards", false},
		{"_", "__sluice_shards", false},
		{"_mine", "_mine.x", true},
	} {
		require.Equal(t, tc.want, holder(read, tc.prefix).May(read, tc.topic), "%q covers %q", tc.prefix, tc.topic)
	}
}

func TestEachActionIncludesThoseBefore(t *testing.T) {
	require.True(t, holder(write, "orders").May(read, "orders"))
	require.True(t, holder(admin, "orders").May(write, "orders"))
	require.False(t, holder(read, "orders").May(write, "orders"))
	require.False(t, holder(write, "orders").May(admin, "orders"))
}

func TestAdmin(t *testing.T) {
	administrator := grants.CallerOf(&registryv1.Principal{Id: "anonymous", Admin: true})
	require.NoError(t, administrator.Admin())
	require.NoError(t, administrator.Check(write, "orders"))
	require.Equal(t, "anonymous", administrator.ID())

	require.ErrorIs(t, holder(admin, "orders").Admin(), grants.ErrDenied)
	require.ErrorIs(t, holder(admin, "*").Admin(), grants.ErrDenied, "the registry says who is one")
	nobody := grants.CallerOf(nil)
	require.ErrorIs(t, nobody.Admin(), grants.ErrDenied)
	err := nobody.Check(write, "orders")
	require.ErrorIs(t, err, grants.ErrDenied)
	require.EqualError(t, err, `the key is not granted write on topic "orders"`)
}
