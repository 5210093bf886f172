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

	"github.com/sluiceio/sluice/services/gateway"
	"github.com/sluiceio/sluice/services/gateway/internal/clustertest"
	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/obs"
)

func TestMain(m *testing.M) { leaks.Main(m) }

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

func defaults(tb testing.TB) gateway.Config {
	tb.Helper()
	var cfg gateway.Config
	cfg.RegisterFlags(pflag.NewFlagSet("gateway", pflag.ContinueOnError))
	require.NoError(tb, cfg.Validate())
	return cfg
}

// impatient is for what does not come. On a busy machine whatever comes may be too late
// for it: a leader, or the picture after a change.
func impatient(c *gateway.Config) { c.LeaderWait = 200 * time.Millisecond }

func start(tb testing.TB, settings ...setting) *server {
	tb.Helper()
	return startOn(tb, clustertest.New(tb, "a", "b"), settings...)
}

// hasty starts an impatient gateway beside this one, which knows the topics that there
// are by now.
func (s *server) hasty(tb testing.TB) *server {
	tb.Helper()
	return startOn(tb, s.Cluster, impatient)
}

func startOn(tb testing.TB, cluster *clustertest.Cluster, settings ...setting) *server {
	tb.Helper()
	cfg := defaults(tb)
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
		HTTP:     listen(tb),
		GRPC:     listen(tb),
		Now:      func() time.Time { return now },
	})
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.service.Run(ctx) }()
	var once sync.Once
	s.stop = func(tb testing.TB) {
		tb.Helper()
		once.Do(func() {
			cancel()
			require.NoError(tb, <-ended)
			s.client.CloseIdleConnections()
		})
	}
	tb.Cleanup(func() { s.stop(tb) })
	require.Eventually(tb, func() bool { return s.service.Ready() == nil }, eventually, tick)
	return s
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	return l
}

func (s *server) url(path string) string { return "http://" + s.service.HTTPAddr().String() + path }

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (s *server) try(req *http.Request) (answer, error) {
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	return answer{resp.StatusCode, resp.Header, string(body)}, resp.Body.Close()
}

func (s *server) send(tb testing.TB, req *http.Request) answer {
	tb.Helper()
	got, err := s.try(req)
	require.NoError(tb, err)
	return got
}

// later sends a request and gives its answer when it comes; a failure is an
// answer with the status 0.
func (s *server) later(req *http.Request) <-chan answer {
	got := make(chan answer, 1)
	go func() {
		a, err := s.try(req)
		if err != nil {
			a = answer{body: err.Error()}
		}
		got <- a
	}()
	return got
}

func (s *server) request(tb testing.TB, method, path, body string) *http.Request {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, s.url(path), strings.NewReader(body))
	require.NoError(tb, err)
	return req
}

func (s *server) do(tb testing.TB, method, path, body string) answer {
	tb.Helper()
	return s.send(tb, s.request(tb, method, path, body))
}

// step is a request and all that comes back.
type step struct {
	method, path, body string
	status             int
	want               string
}

var anyID = regexp.MustCompile(`\(id [0-9a-f-]+\)`)

// steps runs steps one after the other.
func (s *server) steps(tb testing.TB, steps ...step) {
	tb.Helper()
	for _, st := range steps {
		got := s.do(tb, st.method, st.path, st.body)
		body := anyID.ReplaceAllString(got.body, "(id ID)")
		require.Equal(tb, st.want, body, "%s %s %.200s", st.method, st.path, st.body)
		require.Equal(tb, st.status, got.status, "%s %s %.200s", st.method, st.path, st.body)
		if got.status != http.StatusNoContent {
			require.Equal(tb, "application/json", got.header.Get("Content-Type"), "%s %s", st.method, st.path)
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
