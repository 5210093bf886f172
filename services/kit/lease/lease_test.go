package lease_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/lease"
	"github.com/sluiceio/sluice/services/kit/lease/etcdtest"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// run starts f and returns what stops it and waits for it.
func run(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(t, <-done)
		})
	}
	t.Cleanup(stop)
	return stop
}

func value(t *testing.T, client *clientv3.Client, key string) (string, clientv3.LeaseID) {
	t.Helper()
	resp, err := client.Get(t.Context(), key)
	require.NoError(t, err)
	if len(resp.Kvs) == 0 {
		return "", 0
	}
	return string(resp.Kvs[0].Value), clientv3.LeaseID(resp.Kvs[0].Lease)
}

func TestSessionRegistersUnderItsLeaseAndGivesItBack(t *testing.T) {
	client := etcdtest.Start(t)
	s := lease.NewSession(client, lease.Config{})
	s.Register("/n/1", []byte("one"))
	require.False(t, s.Alive())
	stop := run(t, s.Run)
	s.Register("/n/2", []byte("two"))
	require.NoError(t, s.Flush(t.Context()))
	grant, err := s.Current(t.Context())
	require.NoError(t, err)
	require.True(t, grant.Alive())

	for key, want := range map[string]string{"/n/1": "one", "/n/2": "two"} {
		got, under := value(t, client, key)
		require.Equal(t, want, got)
		require.Equal(t, grant.ID, under)
	}
	s.Register("/n/2", []byte("zwei"))
	s.Unregister("/n/1")
	require.NoError(t, s.Flush(t.Context()))
	got, _ := value(t, client, "/n/2")
	require.Equal(t, "zwei", got)
	got, _ = value(t, client, "/n/1")
	require.Empty(t, got)

	stop()
	got, _ = value(t, client, "/n/2")
	require.Empty(t, got, "a clean stop takes the keys along")
	<-grant.Lost()
	require.False(t, grant.Alive())
}

func TestLostLeaseEndsTheGrantAndTheKeysComeBackUnderAnother(t *testing.T) {
	client := etcdtest.Start(t)
	// Long enough that nothing but the revocation ends the lease.
	s := lease.NewSession(client, lease.Config{TTL: 5 * time.Second})
	s.Register("/n/1", []byte("one"))
	run(t, s.Run)
	require.NoError(t, s.Flush(t.Context()))
	first, err := s.Current(t.Context())
	require.NoError(t, err)

	_, err = client.Revoke(t.Context(), first.ID)
	require.NoError(t, err)
	select {
	case <-first.Lost():
	case <-time.After(time.Minute):
		t.Fatal("the session does not see that its lease is gone")
	}
	require.NoError(t, s.Flush(t.Context()))
	second, err := s.Current(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, first.ID, second.ID)
	got, under := value(t, client, "/n/1")
	require.Equal(t, "one", got)
	require.Equal(t, second.ID, under)
}

func TestGrantLivesLongerThanItsTTL(t *testing.T) {
	client := etcdtest.Start(t)
	s := lease.NewSession(client, lease.Config{TTL: time.Second})
	run(t, s.Run)
	// A process that is paused for a second loses its lease rightly, and has another then.
	// None lasts that nobody keeps alive.
	for range 20 {
		grant, err := s.Current(t.Context())
		require.NoError(t, err)
		select {
		case <-grant.Lost():
		case <-time.After(2500 * time.Millisecond):
			if grant.Alive() {
				return
			}
		}
	}
	require.Fail(t, "leases that are kept alive were lost")
}

func TestRestartTakesOverWhatItsEarlierLifeLeft(t *testing.T) {
	client := etcdtest.Start(t)
	dead, err := client.Grant(t.Context(), 3600)
	require.NoError(t, err)
	for _, key := range []string{"/nodes/a", "/owned/1"} {
		_, err = client.Put(t.Context(), key, "dead", clientv3.WithLease(dead.ID))
		require.NoError(t, err)
	}
	s := lease.NewSession(client, lease.Config{Identity: "/nodes/a"})
	s.Register("/nodes/a", []byte("alive"))
	run(t, s.Run)
	require.NoError(t, s.Flush(t.Context()))
	got, _ := value(t, client, "/nodes/a")
	require.Equal(t, "alive", got)
	got, _ = value(t, client, "/owned/1")
	require.Empty(t, got, "what the earlier life owned is free")
}

// Whoever is barred is not let in, neither at a start nor when the bar is put up
// after the session has begun; and nothing of it stays.
func TestBarKeepsAProcessOut(t *testing.T) {
	client := etcdtest.Start(t)
	cfg := lease.Config{TTL: time.Second, Identity: "/nodes/a", Bar: "/gone/a"}
	s := lease.NewSession(client, cfg)
	s.Register("/nodes/a", []byte("alive"))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(t.Context()) }()
	require.NoError(t, s.Flush(t.Context()))
	_, err := client.Put(t.Context(), "/gone/a", "")
	require.NoError(t, err)
	s.Register("/nodes/a/more", []byte("x"))
	require.ErrorIs(t, <-ended, lease.ErrBarred)
	require.ErrorContains(t, lease.NewSession(client, cfg).Run(t.Context()), "/gone/a")
	resp, err := client.Get(t.Context(), "/nodes/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Empty(t, resp.Kvs)
	leases, err := client.Leases(t.Context())
	require.NoError(t, err)
	require.Empty(t, leases.Leases)

	_, err = client.Delete(t.Context(), "/gone/a")
	require.NoError(t, err)
	again := lease.NewSession(client, cfg)
	run(t, again.Run)
	require.NoError(t, again.Flush(t.Context()))
}

// picture is what a receiver of updates knows.
type picture struct {
	mu        sync.Mutex
	values    map[string]string
	revision  int64
	snapshots int
}

func (p *picture) apply(u lease.Update) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u.Snapshot {
		p.values = map[string]string{}
		p.snapshots++
	}
	p.revision = u.Revision
	for _, c := range u.Changes {
		if c.Deleted {
			delete(p.values, c.Key)
			continue
		}
		p.values[c.Key] = string(c.Value)
	}
}

func (p *picture) get() (map[string]string, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	values := make(map[string]string, len(p.values))
	for k, v := range p.values {
		values[k] = v
	}
	return values, p.snapshots
}

func TestWatcherShowsAllThenChanges(t *testing.T) {
	client := etcdtest.Start(t)
	ctx := t.Context()
	want := map[string]string{}
	for i := range 2500 { // several pages
		key := fmt.Sprintf("/w/%04d", i)
		want[key] = "v"
		_, err := client.Put(ctx, key, "v")
		require.NoError(t, err)
	}
	var p picture
	w := lease.NewWatcher(client, "/w/", nil)
	run(t, func(ctx context.Context) error { return w.Run(ctx, p.apply) })
	require.NoError(t, w.Sync(ctx))
	got, _ := p.get()
	require.Equal(t, want, got)

	put, err := client.Put(ctx, "/w/0000", "new")
	require.NoError(t, err)
	require.NoError(t, w.WaitFor(ctx, put.Header.Revision))
	del, err := client.Delete(ctx, "/w/1", clientv3.WithPrefix())
	require.NoError(t, err)
	require.NoError(t, w.WaitFor(ctx, del.Header.Revision))
	got, snapshots := p.get()
	require.Equal(t, "new", got["/w/0000"])
	require.Len(t, got, 1500)
	require.Equal(t, 1, snapshots)

	// Revisions that are none of the prefix's do not keep Sync waiting.
	_, err = client.Put(ctx, "/elsewhere", "x")
	require.NoError(t, err)
	require.NoError(t, w.Sync(ctx))
	// Nor does what the caller sends along.
	_, err = client.Put(ctx, "/elsewhere", "y")
	require.NoError(t, err)
	require.NoError(t, w.Sync(metadata.AppendToOutgoingContext(ctx, "trace", "1")))
}

// A watch that begins after the newest revision of etcd is no reason for others to
// wait until there is a newer one.
func TestSyncDoesNotWaitForOtherWatchers(t *testing.T) {
	client := etcdtest.Start(t)
	var p picture
	w := lease.NewWatcher(client, "/w/", nil)
	run(t, func(ctx context.Context) error { return w.Run(ctx, p.apply) })
	require.NoError(t, w.Sync(t.Context()))
	for range 50 {
		put, err := client.Put(t.Context(), "/elsewhere", "x")
		require.NoError(t, err)
		var o picture
		other := lease.NewWatcher(client, "/other/", nil)
		run(t, func(ctx context.Context) error { return other.Run(ctx, o.apply) })
		require.NoError(t, other.WaitFor(t.Context(), put.Header.Revision))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		require.NoError(t, w.Sync(ctx))
		cancel()
	}
}

func TestWatcherBeginsAgainAfterACompaction(t *testing.T) {
	client := etcdtest.Start(t)
	ctx := t.Context()
	_, err := client.Put(ctx, "/w/a", "1")
	require.NoError(t, err)

	// The first snapshot is held up until etcd has forgotten what follows it.
	var p picture
	held, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w := lease.NewWatcher(client, "/w/", nil)
	run(t, func(ctx context.Context) error {
		return w.Run(ctx, func(u lease.Update) {
			once.Do(func() {
				close(held)
				<-release
			})
			p.apply(u)
		})
	})
	<-held
	_, err = client.Delete(ctx, "/w/a")
	require.NoError(t, err)
	last, err := client.Put(ctx, "/w/b", "2")
	require.NoError(t, err)
	_, err = client.Compact(ctx, last.Header.Revision)
	require.NoError(t, err)
	close(release)

	require.NoError(t, w.WaitFor(ctx, last.Header.Revision))
	got, snapshots := p.get()
	require.Equal(t, map[string]string{"/w/b": "2"}, got)
	require.Equal(t, 2, snapshots)
}

// A watcher whose receiver panics begins again with all that there is.
func TestWatcherBeginsAgainAfterAPanic(t *testing.T) {
	client := etcdtest.Start(t)
	_, err := client.Put(t.Context(), "/p/a", "1")
	require.NoError(t, err)
	updates := make(chan lease.Update, 10)
	w := lease.NewWatcher(client, "/p/", nil)
	run(t, func(ctx context.Context) error {
		return w.Run(ctx, func(u lease.Update) {
			updates <- u
			if len(u.Changes) == 1 && string(u.Changes[0].Value) == "2" && !u.Snapshot {
				panic("broken")
			}
		})
	})
	require.True(t, (<-updates).Snapshot)
	_, err = client.Put(t.Context(), "/p/a", "2")
	require.NoError(t, err)
	require.False(t, (<-updates).Snapshot)
	again := <-updates
	require.True(t, again.Snapshot)
	require.Equal(t, "2", string(again.Changes[0].Value))
	require.NoError(t, w.WaitFor(t.Context(), again.Revision))
}
