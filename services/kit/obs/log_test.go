package obs_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/obs"
)

func TestLinesCarryTheIDsOfTheirContext(t *testing.T) {
	var out bytes.Buffer
	logger := obs.NewLogger(obs.Config{LogFormat: obs.FormatAuto}, &out).With("node", "n1")
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	ctx := errs.WithID(trace.ContextWithSpanContext(t.Context(), span), "e-1")
	logger.InfoContext(ctx, "hello", "topic", "orders")

	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line), "not a terminal, so JSON")
	delete(line, "time")
	require.Equal(t, map[string]any{
		"level": "INFO", "msg": "hello", "node": "n1", "topic": "orders",
		"trace_id": "01000000000000000000000000000000", "span_id": "0200000000000000", "error_id": "e-1",
	}, line)

	out.Reset()
	logger.WithGroup("g").Info("bare", "a", 1)
	require.NotContains(t, out.String(), "_id")
}

func TestLevelAndFormat(t *testing.T) {
	var out bytes.Buffer
	logger := obs.NewLogger(obs.Config{LogLevel: slog.LevelWarn, LogFormat: obs.FormatText}, &out)
	logger.Info("quiet")
	logger.Warn("loud")
	require.Contains(t, out.String(), "level=WARN msg=loud\n")
	require.NotContains(t, out.String(), "quiet")
}
