package binproto

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// A span is around one read, or around produces that are written together: it is
// one write, whoever asked for it. The protocol carries no trace context, so
// traces begin here.
type span struct {
	// Nil while nothing is traced.
	of trace.Span
}

// trace begins a span, and returns the context of what happens in it.
func (d *Door) trace(ctx context.Context, op opcode, topic string) (context.Context, span) {
	if d.tracer == nil {
		return ctx, span{}
	}
	ctx, of := d.tracer.Start(ctx, "binary."+op.String(), trace.WithSpanKind(trace.SpanKindServer))
	if of.IsRecording() {
		of.SetAttributes(attribute.String("sluice.topic", topic))
	}
	return ctx, span{of}
}

// produces says what is written.
func (s span) produces(group []*produce) {
	if s.of == nil || !s.of.IsRecording() {
		return
	}
	records, bytes := 0, 0
	for _, p := range group {
		records += len(p.records)
		bytes += len(p.body)
	}
	s.of.SetAttributes(
		attribute.Int("sluice.requests", len(group)),
		attribute.Int("sluice.records", records),
		attribute.Int("sluice.bytes", bytes),
	)
}

// failed says that something of it was refused.
func (s span) failed(err error) {
	if s.of != nil {
		s.of.SetStatus(codes.Error, err.Error())
	}
}

func (s span) end(err error) {
	if s.of == nil {
		return
	}
	if err != nil {
		s.failed(err)
	}
	s.of.End()
}
