package registry_test

import (
	"context"
	"net"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parse(t *testing.T, args ...string) registry.Config {
	var cfg registry.Config
	fs := pflag.NewFlagSet("registry", pflag.ContinueOnError)
	cfg.RegisterFlags(fs)
	require.NoError(t, fs.Parse(args))
	return cfg
}

func TestConfig(t *testing.T) {
	cfg := parse(t)
	require.NoError(t, cfg.Validate())

	cfg = parse(t, "--auth", "required")
	require.ErrorContains(t, cfg.Validate(), "not supported by this version")
	_, err := registry.New(cfg, registry.Deps{})
	require.Error(t, err)

	cfg = parse(t, "--auth", "Off")
	require.EqualError(t, cfg.Validate(), `--auth must be off or required, got "Off"`)
}

func TestEveryCallerIsTheAdministratorWithoutAuthentication(t *testing.T) {
	service, err := registry.New(parse(t), registry.Deps{})
	require.NoError(t, err)
	server := grpc.NewServer()
	service.Register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		require.NoError(t, <-served)
	}()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()

	require.NoError(t, service.Ready())
	for _, secret := range []string{"", "esk_whatever"} {
		resp, err := registryv1.NewAuthServiceClient(conn).Authenticate(t.Context(), &registryv1.AuthenticateRequest{Secret: secret})
		require.NoError(t, err)
		require.Equal(t, "anonymous", resp.GetPrincipal().GetId())
		require.True(t, resp.GetPrincipal().GetAdmin())
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	service, err := registry.New(parse(t), registry.Deps{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, service.Run(ctx))
}
