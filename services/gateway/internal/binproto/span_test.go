package binproto_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sluiceio/sluice/services/gateway/internal/binproto"
)

// There is one span for each read, and for produces that are written together.
func TestSpans(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	g := &gate{}
	d := start(t, &fake{before: g.pass}, func(_ *binproto.Config, deps *binproto.Deps) { deps.Tracer = provider.Tracer("test") })
	open := g.close(t, "t")
	c := d.join(t, "", 0)
	c.ask(produce, records("t", val("first")))
	require.Eventually(t, func() bool { return g.inside() == 1 }, eventually, tick)
	c.ask(produce, records("t", val("x"), val("y")))
	c.ask(produce, records("t", val("refused")))
	c.alive()
	open()
	for range 3 {
		c.next()
	}
	require.Equal(t, byte(0x82), c.call(consume, reading("t", 0)).op)
	require.Eventually(t, func() bool { return len(recorder.Ended()) == 3 }, eventually, tick)
	type seen struct {
		name     string
		status   codes.Code
		requests int64
		records  int64
	}
	var spans []seen
	for _, s := range recorder.Ended() {
		attributes := attribute.NewSet(s.Attributes()...)
		topic, _ := attributes.Value("sluice.topic")
		require.Equal(t, "t", topic.AsString())
		requests, _ := attributes.Value("sluice.requests")
		records, _ := attributes.Value("sluice.records")
		spans = append(spans, seen{s.Name(), s.Status().Code, requests.AsInt64(), records.AsInt64()})
	}
	require.Equal(t, []seen{
		{"binary.produce", codes.Unset, 1, 1},
		{"binary.produce", codes.Error, 2, 3},
		{"binary.consume", codes.Unset, 0, 0},
	}, spans)
}
