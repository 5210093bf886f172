package rpc_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	testv1 "google.golang.org/grpc/interop/grpc_testing"

	"github.com/sluiceio/sluice/services/kit/rpc"
)

// handlers are what a test sets of gRPC's test service.
type handlers struct {
	unary        func(context.Context, *testv1.SimpleRequest) (*testv1.SimpleResponse, error)
	serverStream func(*testv1.StreamingOutputCallRequest, testv1.TestService_StreamingOutputCallServer) error
	clientStream func(testv1.TestService_StreamingInputCallServer) error
	bidi         func(testv1.TestService_FullDuplexCallServer) error
}

type service struct {
	testv1.UnimplementedTestServiceServer
	*handlers
}

func (s *service) UnaryCall(ctx context.Context, req *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
	return s.unary(ctx, req)
}

func (s *service) StreamingOutputCall(req *testv1.StreamingOutputCallRequest, stream testv1.TestService_StreamingOutputCallServer) error {
	return s.serverStream(req, stream)
}

func (s *service) StreamingInputCall(stream testv1.TestService_StreamingInputCallServer) error {
	return s.clientStream(stream)
}

func (s *service) FullDuplexCall(stream testv1.TestService_FullDuplexCallServer) error {
	return s.bidi(stream)
}

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// link is a service, reached over one kind of connection.
type link struct {
	*handlers
	testv1.TestServiceClient
	conn grpc.ClientConnInterface
	log  *logBuffer
	// stop stops the server; it returns when all handlers have returned.
	stop func()
}

// kinds are the kinds of connection that have to behave alike.
var kinds = map[string]func(t *testing.T, s *service, o rpc.Options) (conn grpc.ClientConnInterface, stop func()){
	"local": func(t *testing.T, s *service, o rpc.Options) (grpc.ClientConnInterface, func()) {
		local := rpc.NewLocal(o)
		testv1.RegisterTestServiceServer(local, s)
		t.Cleanup(local.Stop)
		return local, local.Stop
	},
	"tcp": func(t *testing.T, s *service, o rpc.Options) (grpc.ClientConnInterface, func()) {
		server := rpc.NewServer(rpc.ServerOptions{Options: o})
		testv1.RegisterTestServiceServer(server, s)
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan struct{})
		go func() {
			defer close(served)
			if err := server.Serve(ctx, listener); err != nil {
				t.Errorf("serve: %v", err)
			}
		}()
		stop := func() { cancel(); <-served }
		dialer := rpc.NewTCP(rpc.TCPOptions{Tracing: o.Tracing})
		t.Cleanup(func() {
			if err := dialer.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			stop()
		})
		conn, err := dialer.Conn(t.Context(), "n1", listener.Addr().String())
		require.NoError(t, err)
		return conn, stop
	},
}

// onEach runs a test over each kind of connection.
func onEach(t *testing.T, o rpc.Options, test func(t *testing.T, l link)) {
	for name, connect := range kinds {
		t.Run(name, func(t *testing.T) {
			log := &logBuffer{}
			o := o
			o.Logger = slog.New(slog.NewTextHandler(log, nil))
			s := &service{handlers: &handlers{}}
			conn, stop := connect(t, s, o)
			test(t, link{s.handlers, testv1.NewTestServiceClient(conn), conn, log, stop})
		})
	}
}

func payload(body string) *testv1.Payload { return &testv1.Payload{Body: []byte(body)} }
