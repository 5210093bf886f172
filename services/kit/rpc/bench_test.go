package rpc_test

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	testv1 "google.golang.org/grpc/interop/grpc_testing"

	"github.com/sluiceio/sluice/services/kit/rpc"
)

// BenchmarkCall makes calls that carry a batch of 500 records of 256 bytes each
// way.
func BenchmarkCall(b *testing.B) {
	o := rpc.Options{Logger: slog.New(slog.DiscardHandler)}
	request := &testv1.SimpleRequest{Payload: &testv1.Payload{Body: make([]byte, 500*256)}}
	s := &service{handlers: &handlers{
		unary: func(context.Context, *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			return &testv1.SimpleResponse{Payload: request.Payload, ServerId: "n1"}, nil
		},
	}}
	run := func(b *testing.B, conn grpc.ClientConnInterface) {
		b.Helper()
		client := testv1.NewTestServiceClient(conn)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := client.UnaryCall(b.Context(), request); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("local", func(b *testing.B) {
		local := rpc.NewLocal(o)
		defer local.Stop()
		testv1.RegisterTestServiceServer(local, s)
		run(b, local)
	})
	b.Run("tcp", func(b *testing.B) {
		server := rpc.NewServer(rpc.ServerOptions{Options: o})
		testv1.RegisterTestServiceServer(server, s)
		listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
		require.NoError(b, err)
		go func() { _ = server.Server.Serve(listener) }()
		defer server.Server.Stop()
		dialer := rpc.NewTCP(rpc.TCPOptions{})
		defer func() { _ = dialer.Close() }()
		conn, err := dialer.Conn(b.Context(), "n1", listener.Addr().String())
		require.NoError(b, err)
		run(b, conn)
	})
}

// BenchmarkLocalCallsAtOnce makes small calls from every core, which contend for
// what the connection counts.
func BenchmarkLocalCallsAtOnce(b *testing.B) {
	local := rpc.NewLocal(rpc.Options{Logger: slog.New(slog.DiscardHandler)})
	defer local.Stop()
	testv1.RegisterTestServiceServer(local, &service{handlers: &handlers{unary: echo}})
	client := testv1.NewTestServiceClient(local)
	request := &testv1.SimpleRequest{Payload: payload("data")}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := client.UnaryCall(b.Context(), request); err != nil {
				b.Error(err)
			}
		}
	})
}
