package obs_test

import (
	"log/slog"
	"math"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/obs"
)

func TestFlagsAndTheirDefaults(t *testing.T) {
	var cfg obs.Config
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	cfg.RegisterFlags(fs)
	require.Equal(t, obs.Config{LogFormat: "auto", TraceSample: 0.01}, cfg)
	require.NoError(t, cfg.Validate())

	require.NoError(t, fs.Parse([]string{"--log-level=debug", "--log-format=json", "--otlp-endpoint=localhost:4317", "--trace-sample=1"}))
	require.Equal(t, obs.Config{LogLevel: slog.LevelDebug, LogFormat: "json", OTLPEndpoint: "localhost:4317", TraceSample: 1}, cfg)
	require.NoError(t, cfg.Validate())
}

func TestAllFaultsAreReported(t *testing.T) {
	err := (&obs.Config{LogFormat: "xml", OTLPEndpoint: "ftp://x", TraceSample: math.NaN()}).Validate()
	require.ErrorContains(t, err, `--log-format "xml"`)
	require.ErrorContains(t, err, `--otlp-endpoint "ftp://x"`)
	require.ErrorContains(t, err, "--trace-sample NaN")

	for _, endpoint := range []string{"http://", ":4317", "http://a b", "://"} {
		err := (&obs.Config{LogFormat: "auto", OTLPEndpoint: endpoint}).Validate()
		require.Error(t, err, endpoint)
	}
	for _, endpoint := range []string{"localhost:4317", "http://127.0.0.1:4317", "https://traces.example.com"} {
		require.NoError(t, (&obs.Config{LogFormat: "auto", OTLPEndpoint: endpoint}).Validate(), endpoint)
	}
}
