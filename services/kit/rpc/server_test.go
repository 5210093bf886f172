package rpc_test

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	testv1 "google.golang.org/grpc/interop/grpc_testing"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/services/kit/rpc"
)

// serve starts a server that ends with the test and returns its address.
func serve(t *testing.T, server *rpc.Server) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return listener.Addr().String()
}

func dialer(t *testing.T, o rpc.TCPOptions) *rpc.TCP {
	t.Helper()
	d := rpc.NewTCP(o)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return d
}

func TestHealthFollowsSetReady(t *testing.T) {
	server := rpc.NewServer(rpc.ServerOptions{Options: rpc.Options{Logger: slog.New(slog.DiscardHandler)}})
	conn, err := dialer(t, rpc.TCPOptions{}).Conn(t.Context(), "n1", serve(t, server))
	require.NoError(t, err)
	health := healthv1.NewHealthClient(conn)
	require.Equal(t, healthv1.HealthCheckResponse_NOT_SERVING, check(t, health))
	server.SetReady(true)
	require.Equal(t, healthv1.HealthCheckResponse_SERVING, check(t, health))
	server.SetReady(false)
	require.Equal(t, healthv1.HealthCheckResponse_NOT_SERVING, check(t, health))

	_, err = health.Check(t.Context(), &healthv1.HealthCheckRequest{Service: "nothing"})
	require.Equal(t, codes.NotFound, status.Code(err))
}

func check(t *testing.T, health healthv1.HealthClient) healthv1.HealthCheckResponse_ServingStatus {
	t.Helper()
	response, err := health.Check(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	return response.GetStatus()
}

func TestReflectionIsThereOnDemand(t *testing.T) {
	for _, on := range []bool{false, true} {
		server := rpc.NewServer(rpc.ServerOptions{
			Options: rpc.Options{Logger: slog.New(slog.DiscardHandler)}, Reflection: on,
		})
		conn, err := dialer(t, rpc.TCPOptions{}).Conn(t.Context(), "n1", serve(t, server))
		require.NoError(t, err)
		stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		require.NoError(t, err)
		// Fails when the refusal is here already; Recv tells why.
		_ = stream.Send(&reflectionv1.ServerReflectionRequest{
			MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
		})
		_, err = stream.Recv()
		if on {
			require.NoError(t, err)
		} else {
			require.Equal(t, codes.Unimplemented, status.Code(err))
		}
	}
}

func TestMessageLimits(t *testing.T) {
	s := &service{handlers: &handlers{unary: echo}}
	for name, c := range map[string]struct {
		limit, size int
		code        codes.Code
	}{
		"default takes more than gRPC's": {0, 5 << 20, codes.OK},
		"under the limit":                {1 << 20, 1 << 19, codes.OK},
		"over the limit":                 {1 << 20, 1<<20 + 1, codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			server := rpc.NewServer(rpc.ServerOptions{
				Options: rpc.Options{Logger: slog.New(slog.DiscardHandler)}, MaxMessageBytes: c.limit,
			})
			testv1.RegisterTestServiceServer(server, s)
			conn, err := dialer(t, rpc.TCPOptions{}).Conn(t.Context(), "n1", serve(t, server))
			require.NoError(t, err)
			request := &testv1.SimpleRequest{Payload: &testv1.Payload{Body: make([]byte, c.size)}}
			_, err = testv1.NewTestServiceClient(conn).UnaryCall(t.Context(), request)
			require.Equal(t, c.code, status.Code(err))
		})
	}
}

func TestServeReportsAListenerThatFails(t *testing.T) {
	server := rpc.NewServer(rpc.ServerOptions{Options: rpc.Options{Logger: slog.New(slog.DiscardHandler)}})
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	require.ErrorContains(t, server.Serve(t.Context(), listener), "serve gRPC on 127.0.0.1:")
}
