package obs_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/obs"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// noHandler tells whether it was wrapped: functions cannot be compared.
type noHandler struct{}

func (*noHandler) ServeHTTP(http.ResponseWriter, *http.Request) {}

func TestTurnedOffNothingIsInstalled(t *testing.T) {
	off, err := obs.NewTracing(t.Context(), obs.Config{TraceSample: 1}, "sluice", "n1", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	for _, tracing := range []*obs.Tracing{nil, {}, off} {
		require.False(t, tracing.Enabled())
		require.Nil(t, tracing.ServerHandler())
		require.Nil(t, tracing.ClientHandler())
		handler := &noHandler{}
		require.Same(t, handler, tracing.HTTPHandler(handler))
		require.Same(t, http.DefaultTransport, tracing.HTTPTransport(http.DefaultTransport))
		ctx, span := tracing.Tracer("x").Start(t.Context(), "span")
		require.False(t, span.IsRecording())
		require.False(t, trace.SpanContextFromContext(ctx).IsValid())
		require.NoError(t, tracing.Shutdown(t.Context()))
	}
}

func TestHTTPSpansHoldTogetherAndHealthChecksMakeNone(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracing := obs.TracingOver(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /topics/{topic}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	server := httptest.NewServer(tracing.HTTPHandler(mux))
	defer server.Close()
	client := http.Client{Transport: tracing.HTTPTransport(&http.Transport{DisableKeepAlives: true})}
	for _, path := range []string{"/topics/orders", "/healthz"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		require.NoError(t, err)
		response, err := client.Do(request)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
	}
	require.Eventually(t, func() bool { return len(recorder.Ended()) == 3 }, time.Minute, time.Millisecond)
	names := map[string]int{}
	traces := map[trace.TraceID]int{}
	for _, span := range recorder.Ended() {
		names[span.SpanKind().String()+" "+span.Name()]++
		traces[span.SpanContext().TraceID()]++
	}
	require.Equal(t, 1, names["server GET /topics/{topic}"], names)
	require.Len(t, traces, 2, "the server's span is of the client's trace")
}

// collector takes traces by OTLP.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer
	mu    sync.Mutex
	names map[string]string
}

func (c *collector) Export(_ context.Context, request *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		var service string
		for _, attr := range resource.GetResource().GetAttributes() {
			if attr.GetKey() == "service.name" {
				service = attr.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.names[span.GetName()] = service
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

func TestShutdownSendsWhatWaits(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	received := &collector{names: map[string]string{}}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, received)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() { server.Stop(); require.NoError(t, <-served) }()

	cfg := obs.Config{OTLPEndpoint: listener.Addr().String(), TraceSample: 1}
	tracing, err := obs.NewTracing(t.Context(), cfg, "sluice-test", "n1", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.True(t, tracing.Enabled())
	_, span := tracing.Tracer("x").Start(t.Context(), "fsync")
	span.End()
	require.NoError(t, tracing.Shutdown(t.Context()))
	require.Equal(t, map[string]string{"fsync": "sluice-test"}, received.names)
}

func TestSampleFollowsTheCaller(t *testing.T) {
	cfg := obs.Config{OTLPEndpoint: "127.0.0.1:1", TraceSample: 0}
	tracing, err := obs.NewTracing(t.Context(), cfg, "sluice-test", "n1", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	_, span := tracing.Tracer("x").Start(t.Context(), "unasked")
	require.False(t, span.SpanContext().IsSampled())

	caller := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	_, span = tracing.Tracer("x").Start(trace.ContextWithSpanContext(t.Context(), caller), "asked")
	require.True(t, span.SpanContext().IsSampled())
	// No span has ended, so there is nothing to send to nobody.
	require.NoError(t, tracing.Shutdown(t.Context()))
}
