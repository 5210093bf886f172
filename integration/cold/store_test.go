package cold

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/s3peer"
	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/kit/blob/blobtest"
	"github.com/sluiceio/sluice/services/kit/blob/retry"
	"github.com/sluiceio/sluice/services/kit/blob/s3"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// policy tries again soon.
func policy() retry.Policy {
	return retry.Policy{
		Temporary: s3.Temporary,
		Backoff:   backoff.Policy{Initial: 5 * time.Millisecond, Max: 50 * time.Millisecond},
		Latency:   2 * time.Second,
	}
}

func open(t *testing.T, endpoint, prefix string, partBytes int64) *s3.Store {
	t.Helper()
	o := options(endpoint)
	o.Prefix, o.PartBytes = prefix, partBytes
	return openWith(t, o)
}

func options(endpoint string) s3.Options {
	return s3.Options{
		Bucket: s3peer.Bucket, Endpoint: endpoint,
		Keys: s3.Keys{Access: s3peer.AccessKey, Secret: s3peer.SecretKey}, Retry: policy(),
	}
}

func openWith(t *testing.T, o s3.Options) *s3.Store {
	t.Helper()
	store, err := s3.New(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return store
}

func prefixOf(t *testing.T) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '/' {
			return r
		}
		return '-'
	}, t.Name()) + "/"
}

func TestStore(t *testing.T) {
	server := s3peer.Require(t)
	// The server answers 409 now and then when folders come and go under it.
	blobtest.Run(t, func(t *testing.T) blob.Store { return retry.New(open(t, server.URL(), prefixOf(t), 0), policy()) })
}

func TestLarge(t *testing.T) {
	server := s3peer.Require(t)
	blobtest.Large(t, open(t, server.URL(), "large/", 0))
	require.Empty(t, server.Files(t), "no object, and no parts of one")
}

// The server is told the checksum and would refuse other bytes; what it stored it
// tells, so that nothing is read back.
func TestChecksumsAreTheServers(t *testing.T) {
	server := s3peer.Require(t)
	proxy := s3peer.NewProxy(t, server)
	store := open(t, proxy.URL(), "", 5<<20)
	const size = 12 << 20
	for name, size := range map[string]int64{"small": 1000, "in-parts": size} {
		proxy.Set(func(r *http.Request) s3peer.Fault {
			require.NotEqual(t, http.MethodGet, r.Method, r.URL)
			return s3peer.Fault{}
		})
		require.NoError(t, store.Put(t.Context(), name, blobtest.Pattern(1), size, blobtest.Pattern(1).Checksum(size)), name)
	}
}

// Whatever happens to requests on their way, a store with retries does what it is
// asked, and leaves nothing behind.
func TestStoreOverABadNetwork(t *testing.T) {
	server := s3peer.Require(t)
	proxy := s3peer.NewProxy(t, server)
	for name, fault := range map[string]s3peer.Fault{
		"busy":         {Status: http.StatusServiceUnavailable},
		"bad gateway":  {Status: http.StatusBadGateway},
		"request cut":  {CutRequest: true},
		"answer cut":   {CutAnswer: true},
		"answer lost":  {Lost: true},
		"hangs":        {Delay: time.Minute},
		"too slow":     {BytesPerSecond: 10},
		"merely tardy": {Delay: 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy()
			p.Latency, p.BytesPerSecond = time.Second, 16<<20
			o := options(proxy.URL())
			o.Prefix, o.Retry, o.PartBytes = prefixOf(t), p, 5<<20
			parts := openWith(t, o)
			// The whole of an upload may take as long as its parts are tried.
			p.Latency = time.Minute
			store := retry.New(parts, p)
			// The first of requests that are alike.
			var seen sync.Map
			proxy.Set(func(r *http.Request) s3peer.Fault {
				if _, again := seen.LoadOrStore(r.Method+r.URL.RequestURI(), true); again {
					return s3peer.Fault{}
				}
				return fault
			})
			defer proxy.Set(nil)
			small := retry.New(parts, retry.Policy{Temporary: s3.Temporary, Backoff: p.Backoff, Latency: time.Second})
			data := []byte("whatever happens")
			blobtest.Put(t, small, "a", data)
			require.Equal(t, string(data), string(blobtest.Get(t, small, "a")))
			require.Equal(t, []string{"a"}, blobtest.Names(t, small, ""))
			require.NoError(t, small.Delete(t.Context(), "a"))
			require.Empty(t, blobtest.Names(t, small, ""))

			const size = 12 << 20
			require.NoError(t, store.Put(t.Context(), "b", blobtest.Pattern(1), size, blobtest.Pattern(1).Checksum(size)))
			require.NoError(t, small.Delete(t.Context(), "b"))
			require.Positive(t, proxy.Hit())
			proxy.Set(nil)
			// Of an upload whose id was lost with the answer nobody knows but Tidy.
			_, err := parts.Tidy(t.Context(), time.Now().Add(time.Minute))
			require.NoError(t, err)
			require.Empty(t, server.Objects(t, prefixOf(t)))
		})
	}
	require.Empty(t, server.Files(t))
}

func TestStoreThatIsRefused(t *testing.T) {
	server := s3peer.Require(t)
	proxy := s3peer.NewProxy(t, server)
	store := retry.New(open(t, proxy.URL(), "", 0), policy())
	proxy.Set(func(*http.Request) s3peer.Fault { return s3peer.Fault{Status: http.StatusForbidden} })
	require.ErrorContains(t, store.Put(t.Context(), "a", blobtest.Pattern(1), 0, 0), "the server answers 403 AccessDenied: so says the proxy")
	require.Equal(t, int64(1), proxy.Seen(), "it is not asked again")

	o := options(server.URL())
	o.Keys.Secret = "not the secret"
	err := openWith(t, o).Put(t.Context(), "a", blobtest.Pattern(1), 0, 0)
	require.ErrorContains(t, err, "403 SignatureDoesNotMatch")
	require.NotContains(t, err.Error(), "not the secret")
	o = options(server.URL())
	o.Bucket = "no-such-bucket"
	absent := openWith(t, o)
	_, err = absent.ReadAt(t.Context(), "a", make([]byte, 1), 0)
	require.ErrorContains(t, err, "404 NoSuchBucket")
	require.NotErrorIs(t, err, blob.ErrNotFound)

	proxy.Down(t)
	require.ErrorContains(t, store.Put(t.Context(), "a", blobtest.Pattern(1), 0, 0), "connection refused")
	proxy.Up(t)
	proxy.Set(nil)
	require.NoError(t, store.Put(t.Context(), "a", blobtest.Pattern(1), 0, 0))
}

// A server that dies in the middle of an upload has no half object when it comes
// back.
func TestServerDiesInTheMiddle(t *testing.T) {
	server := s3peer.Require(t)
	store := open(t, server.URL(), "", 5<<20)
	// What is sent in parts is read twice.
	for size, after := range map[int64]int64{12 << 20: 18 << 20, 1 << 20: 512 << 10} {
		src := &blobtest.Trap{Pattern: 1, After: after, Do: func() error {
			server.Kill()
			return nil
		}}
		require.Error(t, store.Put(t.Context(), "o", src, size, blobtest.Pattern(1).Checksum(size)))
		server.Start(t)
		require.Empty(t, server.Objects(t, ""))
		_, err := store.Tidy(t.Context(), time.Now().Add(time.Minute))
		require.NoError(t, err)
		require.NoError(t, store.Put(t.Context(), "o", blobtest.Pattern(1), size, blobtest.Pattern(1).Checksum(size)))
		require.NoError(t, store.Delete(t.Context(), "o"))
	}
}
