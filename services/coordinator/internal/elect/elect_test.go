package elect_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluiceio/sluice/services/coordinator/internal/elect"
	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/lease"
	"github.com/sluiceio/sluice/services/kit/lease/etcdtest"
	"github.com/sluiceio/sluice/services/kit/life"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// candidate is a process that stands for election.
type candidate struct {
	session *lease.Session
	// terms receives each term that begins; over, each that ends.
	terms chan elect.Term
	over  chan struct{}
	stop  func()
}

func stand(t *testing.T, etcd *clientv3.Client, node string) *candidate {
	c := &candidate{
		// A third of it is how soon a loss is noticed, and a process that stands still
		// for less than most of it loses nothing.
		session: lease.NewSession(etcd, lease.Config{TTL: 5 * time.Second}),
		terms:   make(chan elect.Term, 10), over: make(chan struct{}, 10),
	}
	ctx, cancel := context.WithCancel(t.Context())
	g := life.NewGroup(ctx)
	g.Go("session", c.session.Run)
	g.Go("election", func(ctx context.Context) error {
		return elect.New(etcd, c.session, node, slog.New(slog.DiscardHandler)).Run(ctx, func(ctx context.Context, term elect.Term) error {
			c.terms <- term
			<-ctx.Done()
			c.over <- struct{}{}
			return context.Cause(ctx)
		})
	})
	c.stop = func() {
		cancel()
		require.NoError(t, g.Wait())
	}
	t.Cleanup(c.stop)
	return c
}

func guarded(t *testing.T, etcd *clientv3.Client, term elect.Term) bool {
	t.Helper()
	resp, err := etcd.Txn(t.Context()).If(term.Guard()).Then(clientv3.OpPut("/change", "x")).Commit()
	require.NoError(t, err)
	return resp.Succeeded
}

func TestOneLeadsAndTheNextFollows(t *testing.T) {
	etcd := etcdtest.Start(t)
	a := stand(t, etcd, "a")
	first := <-a.terms
	require.True(t, guarded(t, etcd, first))
	b := stand(t, etcd, "b")
	require.Empty(t, b.terms)

	// A lost lease deposes.
	grant, err := a.session.Current(t.Context())
	require.NoError(t, err)
	_, err = etcd.Revoke(t.Context(), grant.ID)
	require.NoError(t, err)
	second := <-b.terms
	require.Greater(t, second.Revision, first.Revision)
	require.False(t, guarded(t, etcd, first))
	require.True(t, guarded(t, etcd, second))
	<-a.over

	// A clean stop passes the lead on without a wait.
	b.stop()
	third := <-a.terms
	require.NotEqual(t, first, third)
	require.False(t, guarded(t, etcd, second))
	require.True(t, guarded(t, etcd, third))
}

// A leader that panics is out of office, and stands again.
func TestAPanicEndsATerm(t *testing.T) {
	etcd := etcdtest.Start(t)
	session := lease.NewSession(etcd, lease.Config{})
	terms := make(chan elect.Term, 10)
	ctx, cancel := context.WithCancel(t.Context())
	g := life.NewGroup(ctx)
	g.Go("session", session.Run)
	g.Go("election", func(ctx context.Context) error {
		return elect.New(etcd, session, "a", slog.New(slog.DiscardHandler)).Run(ctx, func(ctx context.Context, term elect.Term) error {
			terms <- term
			if len(terms) == 1 {
				panic("broken")
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
	})
	require.Eventually(t, func() bool { return len(terms) == 2 }, time.Minute, time.Millisecond)
	first, second := <-terms, <-terms
	require.False(t, guarded(t, etcd, first))
	require.True(t, guarded(t, etcd, second))
	cancel()
	require.NoError(t, g.Wait())
}
