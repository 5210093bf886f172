package zapslog

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestLog(t *testing.T) {
	var out bytes.Buffer
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
	logger := New(slog.New(handler), "as every time").With(zap.Int("n", 1))
	logger.Info("nothing to see")
	logger.Error("as every time")
	logger.Warn("slow", zap.Duration("took", 2), zap.Error(errors.New("broken")))
	logger.DPanic("worse")
	require.Equal(t,
		"level=WARN msg=slow component=etcd n=1 took=2ns error=broken\n"+
			"level=ERROR msg=worse component=etcd n=1\n", out.String())
}
