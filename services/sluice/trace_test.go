package sluice_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/services/sluice"
)

// A produce over HTTP is one trace, from the request to the sync of the disk,
// and goes on the one that its caller began.
func TestAProduceIsOneTrace(t *testing.T) {
	traces := startCollector(t)
	cfg := configure(t, t.TempDir(), nil, sluice.AllRoles()...)
	cfg.Obs.OTLPEndpoint, cfg.Obs.TraceSample = traces.address, 1
	n := startWith(t, cfg)
	n.createTopic(t, "orders", 1)

	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+n.node.Doors()["http"]+"/topics/orders/produce", strings.NewReader(`{"records":[{"value":"a"}]}`))
	require.NoError(t, err)
	request.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	http.DefaultClient.CloseIdleConnections()
	n.stop(t)

	path := traces.path(t, "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c", "log.write+fsync")
	require.Equal(t, "log.write+fsync", path[0])
	require.Contains(t, path, "partition.append")
	require.Contains(t, path, "sluice.storage.v1.StorageService/Append")
	require.Contains(t, path, "sluice.log.v1.LogService/Produce")
	require.True(t, strings.HasPrefix(path[len(path)-1], http.MethodPost), path)
}

// The binary protocol carries no trace context, so a trace begins at its door, and
// goes to the sync of the disk.
func TestAProduceOverTheBinaryProtocolIsOneTrace(t *testing.T) {
	traces := startCollector(t)
	cfg := configure(t, t.TempDir(), nil, sluice.AllRoles()...)
	cfg.Obs.OTLPEndpoint, cfg.Obs.TraceSample = traces.address, 1
	cfg.Gateway.BindBinary = "127.0.0.1:0"
	n := startWith(t, cfg)
	n.createTopic(t, "orders", 1)

	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", n.node.Doors()["binary"])
	require.NoError(t, err)
	_, err = conn.Write([]byte("ES01\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x2a\x00\x00\x00\x01\x01" + "\x00\x06orders" + "\xff\xff\xff\xff" + "\x00\x00\x00\x01" +
		"\xff\xff\xff\xff" + "\x00\x00\x00\x01a" + "\xff\xff\xff\xff" + "\x80\x00\x00\x00\x00\x00\x00\x00"))
	require.NoError(t, err)
	answer := make([]byte, 13+9+4+13)
	_, err = io.ReadFull(conn, answer)
	require.NoError(t, err)
	require.Equal(t, byte(0x81), answer[13+8])
	require.NoError(t, conn.Close())
	n.stop(t)

	path := traces.path(t, traces.traceOf(t, "binary.produce"), "log.write+fsync")
	require.Equal(t, "log.write+fsync", path[0])
	require.Contains(t, path, "partition.append")
	require.Contains(t, path, "sluice.storage.v1.StorageService/Append")
	require.Equal(t, "binary.produce", path[len(path)-1])
}

// collector keeps the spans that it is sent.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer
	address string

	mu    sync.Mutex
	spans []*tracev1.Span
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &collector{address: listener.Addr().String()}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	return c
}

func (c *collector) Export(_ context.Context, r *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range r.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// traceOf returns the trace of the first span of a name.
func (c *collector) traceOf(t *testing.T, name string) string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.spans, func(s *tracev1.Span) bool { return s.GetName() == name })
	require.GreaterOrEqual(t, i, 0, "no %s", name)
	return string(c.spans[i].GetTraceId())
}

// path returns the names of a span of a trace and of all that it is part of, the
// innermost first.
func (c *collector) path(t *testing.T, trace, name string) []string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := map[string]*tracev1.Span{}
	var names []string
	for _, span := range c.spans {
		if string(span.GetTraceId()) == trace {
			spans[string(span.GetSpanId())] = span
			names = append(names, span.GetName())
		}
	}
	i := slices.IndexFunc(c.spans, func(s *tracev1.Span) bool { return string(s.GetTraceId()) == trace && s.GetName() == name })
	require.GreaterOrEqual(t, i, 0, "no %s among %v", name, names)
	var path []string
	for span := c.spans[i]; span != nil; span = spans[string(span.GetParentSpanId())] {
		path = append(path, span.GetName())
	}
	return path
}
