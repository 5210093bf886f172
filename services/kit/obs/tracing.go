package obs

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc/filters"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc/stats"
)

// Tracing is where spans come from and go to. Nil, and the zero value, is
// tracing turned off: its tracers make no spans and its handlers are nil, so
// that nothing at all is installed in the path of a request.
type Tracing struct {
	provider *sdktrace.TracerProvider
}

// NewTracing returns tracing to the configured endpoint, or tracing turned off
// when there is none. It does not connect: spans are batched and sent in the
// background, and dropped when nobody takes them. service is the name that
// traces show, such as sluice-gateway; node tells its instances apart.
//
// Faults of the exporter go to logger, which OpenTelemetry takes process-wide.
func NewTracing(ctx context.Context, cfg Config, service, node string, logger *slog.Logger) (*Tracing, error) {
	endpoint, err := endpointURL(cfg.OTLPEndpoint)
	if err != nil {
		return nil, err
	}
	if endpoint == "" {
		return &Tracing{}, nil
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("set up traces to %s: %w", cfg.OTLPEndpoint, err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.Warn("traces not sent", "error", err)
	}))
	return TracingOver(sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.TraceSample))),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", service),
			attribute.String("service.instance.id", node),
		)),
	)), nil
}

// TracingOver returns tracing by a provider of the caller's, which it takes
// over.
func TracingOver(provider *sdktrace.TracerProvider) *Tracing {
	return &Tracing{provider: provider}
}

// Enabled says whether there can be spans.
func (t *Tracing) Enabled() bool {
	return t != nil && t.provider != nil
}

// Tracer returns the tracer of a package, by its import path.
func (t *Tracing) Tracer(name string) trace.Tracer {
	if !t.Enabled() {
		return noop.Tracer{}
	}
	return t.provider.Tracer(name)
}

// Shutdown sends the spans that still wait, as long as ctx lasts.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if !t.Enabled() {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Propagator carries trace contexts as W3C has them, in HTTP headers, gRPC
// metadata and record headers.
func (t *Tracing) Propagator() propagation.TextMapPropagator {
	if !t.Enabled() {
		return propagation.NewCompositeTextMapPropagator()
	}
	return propagation.TraceContext{}
}

// ServerHandler returns what makes a span of each call that a gRPC server takes,
// but for health checks; nil when tracing is off.
func (t *Tracing) ServerHandler() stats.Handler {
	if !t.Enabled() {
		return nil
	}
	return otelgrpc.NewServerHandler(t.grpcOptions()...)
}

// ClientHandler returns what makes a span of each call that a gRPC client makes,
// but for health checks; nil when tracing is off.
func (t *Tracing) ClientHandler() stats.Handler {
	if !t.Enabled() {
		return nil
	}
	return otelgrpc.NewClientHandler(t.grpcOptions()...)
}

func (t *Tracing) grpcOptions() []otelgrpc.Option {
	return []otelgrpc.Option{
		otelgrpc.WithTracerProvider(t.provider),
		otelgrpc.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelgrpc.WithPropagators(t.Propagator()),
		otelgrpc.WithFilter(filters.Not(filters.HealthCheck())),
	}
}

// quietPaths are asked by machines every few seconds.
var quietPaths = map[string]bool{"/healthz": true, "/readyz": true, "/metrics": true}

// HTTPHandler returns next with a span around each request, but for health
// checks and metrics; next itself when tracing is off. Spans are named for the
// method and, where the mux has set it, the pattern.
func (t *Tracing) HTTPHandler(next http.Handler) http.Handler {
	if !t.Enabled() {
		return next
	}
	return otelhttp.NewHandler(next, "http",
		otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelhttp.WithPropagators(t.Propagator()),
		otelhttp.WithFilter(func(r *http.Request) bool { return !quietPaths[r.URL.Path] }),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string {
			// A pattern may begin with the method.
			return strings.TrimSpace(r.Method + " " + strings.TrimPrefix(r.Pattern, r.Method+" "))
		}),
	)
}

// HTTPTransport returns next with a span around each request that it sends; next
// itself when tracing is off.
func (t *Tracing) HTTPTransport(next http.RoundTripper) http.RoundTripper {
	if !t.Enabled() {
		return next
	}
	return otelhttp.NewTransport(next,
		otelhttp.WithTracerProvider(t.provider),
		otelhttp.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelhttp.WithPropagators(t.Propagator()),
	)
}
