package gateway_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/gateway"
	"github.com/sluiceio/sluice/services/gateway/internal/clustertest"
)

func parse(t *testing.T, args ...string) gateway.Config {
	var cfg gateway.Config
	fs := pflag.NewFlagSet("gateway", pflag.ContinueOnError)
	cfg.RegisterFlags(fs)
	require.NoError(t, fs.Parse(args))
	return cfg
}

func TestDefaults(t *testing.T) {
	cfg := parse(t)
	require.NoError(t, cfg.Validate())
	require.Equal(t, "127.0.0.1:9000", cfg.Bind)
	require.Equal(t, "127.0.0.1:9090", cfg.BindGRPC)
	require.EqualValues(t, 10<<20, cfg.MaxRequestBodyBytes)
	require.Equal(t, 8<<20, cfg.MaxRecordBytes)
	require.Equal(t, 10_000, cfg.MaxFetchRecords)
	require.Equal(t, 8<<20, cfg.MaxFetchBytes)
}

func TestValidate(t *testing.T) {
	for args, want := range map[string]string{
		"--max-connections -1":               "--max-connections must be 0 or more, got -1",
		"--bind 0.0.0.0:9000":                "--bind 0.0.0.0:9000 lets other machines in",
		"--bind :9000":                       "--bind :9000 lets other machines in",
		"--bind [::]:9000":                   "--bind [::]:9000 lets other machines in",
		"--bind broker.example:9000":         "--bind broker.example:9000 lets other machines in",
		"--bind-grpc 10.0.0.1:9090":          "--bind-grpc 10.0.0.1:9090 lets other machines in",
		"--bind 9000":                        `--bind must be host:port, got "9000"`,
		"--tls-cert c.pem":                   "--tls-cert and --tls-key must be given together",
		"--tls-key k.pem":                    "--tls-cert and --tls-key must be given together",
		"--bind= --bind-grpc=":               "one of --bind, --bind-grpc and --bind-binary must be given",
		"--cors-origin *":                    `--cors-origin must be scheme://host[:port], got "*"`,
		"--cors-origin https://ui.example/":  `--cors-origin must be scheme://host[:port], got "https://ui.example/"`,
		"--cors-origin ui.example":           `--cors-origin must be scheme://host[:port], got "ui.example"`,
		"--max-record-bytes 0":               "--max-record-bytes must be between 1 and",
		"--max-fetch-bytes -1":               "--max-fetch-bytes must be between 1 and",
		"--max-fetch-records 2000000":        "--max-fetch-records must be between 1 and",
		"--max-request-body-bytes 300000000": "must be more than --max-request-body-bytes",
		"--max-inflight-body-bytes 20000000 --max-fetch-bytes 20000001": "must be at least --max-fetch-bytes",
		"--request-timeout 0s": "--request-timeout must be more than 0",
		"--bind 0.0.0.0:9000 --bind-grpc 10.0.0.1:1 --max-record-bytes 0": "--bind-grpc 10.0.0.1:1 lets",
	} {
		cfg := parse(t, strings.Fields(args)...)
		require.ErrorContains(t, cfg.Validate(), want, args)
		_, err := gateway.New(cfg, gateway.Deps{})
		require.Error(t, err, args)
	}
	for _, args := range []string{
		"--bind localhost:9000", "--bind [::1]:9000", "--bind 127.1.2.3:9000", "--bind=", "--bind-grpc=",
		"--bind 0.0.0.0:9000 --allow-remote-unauthenticated", "--cors-origin https://a.example --cors-origin http://localhost:3000",
	} {
		cfg := parse(t, strings.Fields(args)...)
		require.NoError(t, cfg.Validate(), args)
	}
	authenticated := parse(t, "--bind", "0.0.0.0:9000")
	authenticated.Authenticated = true
	require.NoError(t, authenticated.Validate())
}

func TestNewListens(t *testing.T) {
	taken := listen(t)
	defer func() { require.NoError(t, taken.Close()) }()
	cluster := clustertest.New(t)
	cfg := parse(t, "--bind", "127.0.0.1:0", "--bind-grpc", taken.Addr().String())
	deps := gateway.Deps{Dialer: cluster, Finder: cluster}
	_, err := gateway.New(cfg, deps)
	require.ErrorContains(t, err, "gRPC API: listen tcp")

	cfg.BindGRPC = ""
	s, err := gateway.New(cfg, deps)
	require.NoError(t, err)
	require.Nil(t, s.GRPCAddr())
	require.NotEqual(t, "127.0.0.1:0", s.HTTPAddr().String())
	require.ErrorContains(t, s.Ready(), "no metadata")
	require.NoError(t, s.Close())
}
