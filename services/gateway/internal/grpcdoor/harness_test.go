package grpcdoor_test

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/gateway/internal/grpcdoor"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/rpc"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const (
	eventually = time.Minute
	tick       = 5 * time.Millisecond
	mib        = 1 << 20
)

// A log answers a produce with nothing and a read with one record.
type log struct {
	logv1.UnimplementedLogServiceServer
	// Calls that came through.
	produced, consumed atomic.Int64
	// The value of the record of a read.
	value []byte
	// Panics in a produce.
	broken atomic.Bool
	// What a produce waits for, whatever its context says.
	gate chan struct{}
}

func (l *log) Produce(context.Context, *logv1.ProduceRequest) (*logv1.ProduceResponse, error) {
	if l.broken.Load() {
		panic("broken")
	}
	l.produced.Add(1)
	if l.gate != nil {
		<-l.gate
	}
	return &logv1.ProduceResponse{}, nil
}

func (l *log) Consume(_ context.Context, r *logv1.ConsumeRequest) (*logv1.ConsumeResponse, error) {
	l.consumed.Add(1)
	if r.GetMaxWaitMs() > 0 {
		return nil, errs.New(errs.Internal, "WAITS", "the read still waits")
	}
	return &logv1.ConsumeResponse{Records: []*logv1.Record{{Value: l.value}}}, nil
}

// A keyring lets in who has the secret "known" or, once asked, "good".
type keyring struct {
	asked, awaited atomic.Int64
	// Panics when it is asked for the secret of a call.
	broken atomic.Bool
	// What Authenticate and Await wait for.
	gate chan struct{}
}

func (k *keyring) Secret(_, esKey []string) (string, error) {
	if k.broken.Load() {
		panic("broken")
	}
	if len(esKey) == 0 {
		return "", nil
	}
	return esKey[0], nil
}

func (k *keyring) Known(secret string) bool { return secret == "known" }

func (k *keyring) Authenticate(ctx context.Context, secret string) (grants.Caller, error) {
	k.asked.Add(1)
	if err := k.wait(ctx); err != nil {
		return grants.Caller{}, err
	}
	if secret != "good" {
		return grants.Caller{}, errs.New(errs.Unauthenticated, "UNKNOWN_KEY", "no such key")
	}
	return grants.Caller{}, nil
}

func (k *keyring) wait(ctx context.Context) error {
	if k.gate == nil {
		return nil
	}
	select {
	case <-k.gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (k *keyring) Await(ctx context.Context, _ grants.Caller, _ backend.Read) error {
	k.awaited.Add(1)
	return k.wait(ctx)
}

func (k *keyring) AwaitGroup(ctx context.Context, caller grants.Caller, _ string, r backend.Read) error {
	return k.Await(ctx, caller, r)
}

// limits are small and patient, so that a test says what it is about.
func limits() grpcdoor.Config {
	return grpcdoor.Config{
		MaxMessageBytes: 2 * mib,
		MaxElements:     1000,
		MaxFetchRecords: 1000,
		MaxFetchBytes:   4 * mib,
		BudgetBytes:     16 * mib,
		BudgetTimeout:   10 * time.Second,
		MessageTimeout:  time.Hour, StallTimeout: time.Hour, StallGrace: time.Hour,
		HandshakeTimeout: time.Minute,
		Grace:            5 * time.Second,
	}
}

// A server is a door on a socket.
type server struct {
	log     *log
	keys    *keyring
	address string
	reg     *prometheus.Registry
	// Requests and Answers of BudgetBytes.
	requests, answers *semaphore.Weighted
	// Stops the door and waits for it.
	stop func() error
}

func start(tb testing.TB, cfg grpcdoor.Config) *server {
	tb.Helper()
	s := &server{
		log: &log{}, keys: &keyring{}, reg: prometheus.NewRegistry(),
		requests: semaphore.NewWeighted(cfg.BudgetBytes), answers: semaphore.NewWeighted(cfg.BudgetBytes),
	}
	door := grpcdoor.New(cfg, grpcdoor.Deps{
		Logger:   slog.New(slog.DiscardHandler),
		Backend:  s.keys,
		CallerOf: func(context.Context) grants.Caller { return grants.Caller{} },
		Requests: s.requests, Answers: s.answers,
		Surveys:    semaphore.NewWeighted(1),
		IsSurvey:   func(string) bool { return false },
		Registerer: s.reg,
	})
	grpcServer := rpc.NewServer(rpc.ServerOptions{
		Options:         rpc.Options{Logger: slog.New(slog.DiscardHandler), Unary: []grpc.UnaryServerInterceptor{door.Intercept}},
		MaxMessageBytes: 16 * mib,
		Reflection:      true,
		Transport:       door.Transport(),
	})
	logv1.RegisterLogServiceServer(door.Bound(grpcServer), s.log)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	s.address = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- door.Serve(ctx, listener) }()
	stopped := false
	s.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	tb.Cleanup(func() {
		require.NoError(tb, s.stop())
		// Whatever happened, nothing is held.
		require.True(tb, s.requests.TryAcquire(cfg.BudgetBytes), "requests are held")
		require.True(tb, s.answers.TryAcquire(cfg.BudgetBytes), "answers are held")
	})
	return s
}

// client is an honest one.
func (s *server) client(tb testing.TB) *grpc.ClientConn {
	tb.Helper()
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64*mib)))
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, conn.Close()) })
	return conn
}

// value is the value of one of the door's series.
func (s *server) value(tb testing.TB, name string, labels ...string) float64 {
	tb.Helper()
	families, err := s.reg.Gather()
	require.NoError(tb, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	metrics:
		for _, m := range f.GetMetric() {
			for i, l := range m.GetLabel() {
				if i >= len(labels) || l.GetValue() != labels[i] {
					continue metrics
				}
			}
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return 0
}

func (s *server) held(tb testing.TB, name string) int64 {
	tb.Helper()
	return int64(s.value(tb, "sluice_grpc_budget_bytes", name))
}

func (s *server) idle(tb testing.TB) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		return s.held(tb, "requests") == 0 && s.held(tb, "answers") == 0 && s.value(tb, "sluice_grpc_calls") == 0
	}, eventually, tick)
}

// A peer is one connection of HTTP/2 that says what it wants.
type peer struct {
	server    *server
	transport *http.Transport
}

func (s *server) peer(tb testing.TB) *peer {
	tb.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	p := &peer{server: s, transport: &http.Transport{Protocols: protocols, DisableCompression: true}}
	tb.Cleanup(p.transport.CloseIdleConnections)
	return p
}

// A stream is a call by hand.
type stream struct {
	// What is sent of the body.
	*io.PipeWriter
	answer chan *http.Response
	cancel context.CancelFunc
}

// open begins a call.
func (p *peer) open(tb testing.TB, method, secret string) *stream {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	body, w := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.server.address+method, body)
	require.NoError(tb, err)
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	if secret != "" {
		req.Header.Set("X-Es-Key", secret)
	}
	st := &stream{PipeWriter: w, answer: make(chan *http.Response, 1), cancel: cancel}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		resp, err := p.transport.RoundTrip(req) //nolint:bodyclose // status closes it, or the end of its context
		if err != nil {
			resp = nil
			_ = body.CloseWithError(err)
		}
		st.answer <- resp
	}()
	tb.Cleanup(func() {
		cancel()
		_ = w.Close()
		<-ended
	})
	return st
}

// status waits for the call's end and returns its grpc-status.
func (st *stream) status(tb testing.TB) string {
	tb.Helper()
	resp := <-st.answer
	if resp == nil {
		return "reset"
	}
	_, err := io.Copy(io.Discard, resp.Body)
	if err != nil {
		return "reset"
	}
	require.NoError(tb, resp.Body.Close())
	if status := resp.Trailer.Get("Grpc-Status"); status != "" {
		return status
	}
	return resp.Header.Get("Grpc-Status")
}

// head is the head of a message of a length.
func head(length int) []byte { return binary.BigEndian.AppendUint32([]byte{0}, uint32(length)) }

// messageOf is a message with its head.
func messageOf(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.Marshal(m)
	require.NoError(tb, err)
	return append(head(len(b)), b...)
}
