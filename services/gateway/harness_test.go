package gateway_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluiceio/sluice/services/gateway"
	"github.com/sluiceio/sluice/services/gateway/internal/clustertest"
	"github.com/sluiceio/sluice/services/kit/obs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// now is the time at which all records are written.
var now = time.UnixMilli(1763500000000)

// server is a gateway on real sockets, over a cluster in memory.
type server struct {
	*clustertest.Cluster
	service *gateway.Service
	client  *http.Client
	log     *logBuffer
	// Stops the gateway and waits for it, once.
	stop func(testing.TB)
}

// setting changes how a server is set up.
type setting func(*gateway.Config)

func defaults(t testing.TB) gateway.Config {
	var cfg gateway.Config
	cfg.RegisterFlags(pflag.NewFlagSet("gateway", pflag.ContinueOnError))
	require.NoError(t, cfg.Validate())
	return cfg
}

// impatient is for tests in which a leader does not come.
func impatient(c *gateway.Config) { c.LeaderWait = 200 * time.Millisecond }

func start(t testing.TB, settings ...setting) *server {
	return startOn(t, clustertest.New(t, "a", "b"), settings...)
}

func startOn(t testing.TB, cluster *clustertest.Cluster, settings ...setting) *server {
	cfg := defaults(t)
	for _, set := range settings {
		set(&cfg)
	}
	s := &server{Cluster: cluster, client: &http.Client{Transport: &http.Transport{}}, log: &logBuffer{}}
	var err error
	s.service, err = gateway.New(cfg, gateway.Deps{
		Logger:   slog.New(slog.NewTextHandler(s.log, nil)),
		Gatherer: obs.NewRegistry(),
		Dialer:   cluster,
		Finder:   cluster,
		HTTP:     listen(t),
		GRPC:     listen(t),
		Now:      func() time.Time { return now },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.service.Run(ctx) }()
	var once sync.Once
	s.stop = func(t testing.TB) {
		once.Do(func() {
			cancel()
			require.NoError(t, <-ended)
			s.client.CloseIdleConnections()
		})
	}
	t.Cleanup(func() { s.stop(t) })
	require.Eventually(t, func() bool { return s.service.Ready() == nil }, 5*time.Second, time.Millisecond)
	return s
}

func listen(t testing.TB) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}

func (s *server) url(path string) string { return "http://" + s.service.HTTPAddr().String() + path }

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (s *server) send(t testing.TB, req *http.Request) answer {
	t.Helper()
	resp, err := s.client.Do(req)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return answer{resp.StatusCode, resp.Header, string(body)}
}

func (s *server) request(t testing.TB, method, path, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url(path), strings.NewReader(body))
	require.NoError(t, err)
	return req
}

func (s *server) do(t testing.TB, method, path, body string) answer {
	t.Helper()
	return s.send(t, s.request(t, method, path, body))
}

// step is a request and all that comes back.
type step struct {
	method, path, body string
	status             int
	want               string
}

var anyID = regexp.MustCompile(`\(id [0-9a-f-]+\)`)

// steps runs steps one after the other.
func (s *server) steps(t testing.TB, steps ...step) {
	t.Helper()
	for _, st := range steps {
		got := s.do(t, st.method, st.path, st.body)
		body := anyID.ReplaceAllString(got.body, "(id ID)")
		require.Equal(t, st.want, body, "%s %s %.200s", st.method, st.path, st.body)
		require.Equal(t, st.status, got.status, "%s %s %.200s", st.method, st.path, st.body)
		if got.status != http.StatusNoContent {
			require.Equal(t, "application/json", got.header.Get("Content-Type"), "%s %s", st.method, st.path)
		}
	}
}

func create(name string, partitions string) step {
	return step{"POST", "/topics", `{"name":"` + name + `","partitions":` + partitions + `}`, 201, `{"name":"` + name + `","partitions":` + partitions + `}`}
}

// logBuffer is a log that a test reads while others write it.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
