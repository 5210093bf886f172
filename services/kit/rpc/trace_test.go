package rpc_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	testv1 "google.golang.org/grpc/interop/grpc_testing"

	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/obs"
	"github.com/sluiceio/sluice/services/kit/rpc"
)

// TestTraceHoldsTogether makes calls within a span and finds client, server and
// inner span each below the one before.
func TestTraceHoldsTogether(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracing := obs.TracingOver(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	tracer := tracing.Tracer("test")
	onEach(t, rpc.Options{Tracing: tracing}, func(t *testing.T, l link) {
		fail := errs.New(errs.Internal, "X", "x")
		inner := func(ctx context.Context) error {
			_, span := tracer.Start(ctx, "inner")
			span.End()
			return fail
		}
		l.unary = func(ctx context.Context, _ *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			return nil, inner(ctx)
		}
		l.serverStream = func(_ *testv1.StreamingOutputCallRequest, stream testv1.TestService_StreamingOutputCallServer) error {
			return inner(stream.Context())
		}
		for name, call := range map[string]func(context.Context) error{
			"UnaryCall": func(ctx context.Context) error {
				_, err := l.UnaryCall(ctx, &testv1.SimpleRequest{})
				return err
			},
			"StreamingOutputCall": func(ctx context.Context) error {
				stream, err := l.StreamingOutputCall(ctx, &testv1.StreamingOutputCallRequest{})
				if err == nil {
					_, err = stream.Recv()
				}
				return err
			},
		} {
			t.Run(name, func(t *testing.T) {
				recorder.Reset()
				ctx, outer := tracer.Start(t.Context(), "outer")
				err := call(ctx)
				require.Error(t, err)
				require.NotEqual(t, io.EOF, err)
				outer.End()
				require.Eventually(t, func() bool { return len(recorder.Ended()) == 4 }, time.Minute, time.Millisecond)

				below := map[string]sdktrace.ReadOnlySpan{} // by the id of the span above
				for _, span := range recorder.Ended() {
					below[span.Parent().SpanID().String()] = span
				}
				at := outer.SpanContext()
				for _, want := range []string{
					"client grpc.testing.TestService/" + name,
					"server grpc.testing.TestService/" + name,
					"internal inner",
				} {
					span := below[at.SpanID().String()]
					require.NotNil(t, span, want)
					require.Equal(t, want, span.SpanKind().String()+" "+span.Name())
					require.Equal(t, outer.SpanContext().TraceID(), span.SpanContext().TraceID())
					require.Equal(t, span.SpanKind().String() != "internal", span.Status().Code.String() == "Error", want)
					at = span.SpanContext()
				}
			})
		}
	})
}
