package obs_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/grpclog"

	"github.com/sluiceio/sluice/services/kit/obs"
)

func TestGRPCLogIsPartOfTheLog(t *testing.T) {
	obs.TakeGRPCLog()
	grpclog.Errorf("before there is a log")
	for level, lines := range map[slog.Level]int{slog.LevelDebug: 1, slog.LevelInfo: 0} {
		var out bytes.Buffer
		obs.LogGRPC(obs.NewLogger(obs.Config{LogFormat: obs.FormatJSON, LogLevel: level}, &out))
		grpclog.Errorf("Failed to write response: %s", "broken pipe")
		grpclog.Warning("nothing to see")
		require.Equal(t, lines, bytes.Count(out.Bytes(), []byte("\n")), "%s", out.Bytes())
		if lines == 0 {
			continue
		}
		var line map[string]string
		require.NoError(t, json.Unmarshal(out.Bytes(), &line))
		require.Equal(t, "DEBUG", line["level"])
		require.Contains(t, line["msg"], "Failed to write response: broken pipe")
	}
}
