package cli

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

func TestHealth(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server, state := grpc.NewServer(), health.NewServer()
	healthv1.RegisterHealthServer(server, state)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // it ends with Stop
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	address := listener.Addr().String()
	require.Equal(t, "ready\n", succeed(t, address, "health").out)
	state.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
	o := execute(t, address, "health")
	require.Equal(t, exitFailure, o.status)
	require.Equal(t, "sluice health: the server is not ready\n", o.err)
	require.Equal(t, exitFailure, execute(t, "127.0.0.1:1", "health").status)
}

// A health check has no key.
func TestHealthNeedsNoKey(t *testing.T) {
	server, _ := startNode(t)
	t.Setenv("SLUICE_KEY_FILE", "")
	require.Equal(t, "ready\n", succeed(t, server, "health").out)
}
