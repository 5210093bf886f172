package obs

import (
	"context"
	"io"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/term"

	"github.com/sluiceio/sluice/services/kit/errs"
)

// NewLogger returns a logger that writes lines of the configured format to w,
// with the trace, span and error id of the context where it has them.
func NewLogger(cfg Config, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.LogLevel}
	var handler slog.Handler
	if cfg.LogFormat == FormatText || cfg.LogFormat != FormatJSON && isTerminal(w) {
		handler = slog.NewTextHandler(w, options)
	} else {
		handler = slog.NewJSONHandler(w, options)
	}
	return slog.New(contextHandler{handler})
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// contextHandler adds the ids of the context to each line. They stand inside the
// groups that are open, since a handler cannot leave a group.
type contextHandler struct {
	slog.Handler
}

// Handle writes the record with the context's ids.
func (h contextHandler) Handle(ctx context.Context, record slog.Record) error {
	span := trace.SpanContextFromContext(ctx)
	id := errs.ID(ctx)
	if span.IsValid() || id != "" {
		record = record.Clone()
		if span.IsValid() {
			record.AddAttrs(
				slog.String("trace_id", span.TraceID().String()),
				slog.String("span_id", span.SpanID().String()),
			)
		}
		if id != "" {
			record.AddAttrs(slog.String("error_id", id))
		}
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs returns the handler with attributes on every line.
func (h contextHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return contextHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup returns the handler with a group opened.
func (h contextHandler) WithGroup(name string) slog.Handler {
	return contextHandler{h.Handler.WithGroup(name)}
}
