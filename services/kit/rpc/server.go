package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/sluiceio/sluice/services/kit/obs"
)

// DefaultMaxMessageBytes is the limit of a message where nothing else is set.
// gRPC's own, 4 MiB, is below the largest record.
const DefaultMaxMessageBytes = 64 << 20

// DefaultGrace is how long a stopping server waits for the calls in flight.
const DefaultGrace = 5 * time.Second

// Options are what a Server and a Local have in common.
type Options struct {
	// Logger takes what may not leave the process; required.
	Logger *slog.Logger
	// Tracing makes a span of each call; nil is none.
	Tracing *obs.Tracing
	// Unary and Stream stand around the handlers, the first outermost, within
	// the guard that catches panics and masks errors.
	Unary  []grpc.UnaryServerInterceptor
	Stream []grpc.StreamServerInterceptor
	// Grace is how long a stop waits for calls in flight before it cancels
	// them; 0 is DefaultGrace. Streams are cancelled at once.
	Grace time.Duration
}

func (o Options) unary(g *guard) []grpc.UnaryServerInterceptor {
	return append([]grpc.UnaryServerInterceptor{g.unary}, o.Unary...)
}

func (o Options) stream(g *guard) []grpc.StreamServerInterceptor {
	return append([]grpc.StreamServerInterceptor{g.stream}, o.Stream...)
}

func (o Options) grace() time.Duration {
	if o.Grace == 0 {
		return DefaultGrace
	}
	return o.Grace
}

// ServerOptions says how to serve.
type ServerOptions struct {
	Options
	// MaxMessageBytes limits a message in either direction; 0 is
	// DefaultMaxMessageBytes. A message is read whole before it is looked at,
	// so this is what one call can cost in memory.
	MaxMessageBytes int
	// MaxStreams limits the calls at once on one connection; 0 is no limit.
	MaxStreams uint32
	// Credentials authenticate the server; nil is plain TCP.
	Credentials credentials.TransportCredentials
	// Reflection tells everybody which services and messages there are.
	Reflection bool
	// Transport is more that is to be said of connections. It goes before the rest.
	Transport []grpc.ServerOption
}

func messageLimit(limit int) int {
	if limit == 0 {
		return DefaultMaxMessageBytes
	}
	return limit
}

// Server is a gRPC server with a health service. Services are registered before
// Serve.
type Server struct {
	*grpc.Server
	guard  *guard
	grace  time.Duration
	health *health.Server
}

// NewServer returns a server that serves nothing yet and reports itself as not
// ready.
func NewServer(o ServerOptions) *Server {
	g := newGuard(o.Logger)
	limit := messageLimit(o.MaxMessageBytes)
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(limit),
		grpc.MaxSendMsgSize(limit),
		grpc.ChainUnaryInterceptor(o.unary(g)...),
		grpc.ChainStreamInterceptor(o.stream(g)...),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: serverPingAfter, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: serverMinPing, PermitWithoutStream: true}),
		// A handler that still runs after a stop would use what is closed next.
		grpc.WaitForHandlers(true),
	}
	if o.MaxStreams > 0 {
		options = append(options, grpc.MaxConcurrentStreams(o.MaxStreams))
	}
	if o.Credentials != nil {
		options = append(options, grpc.Creds(o.Credentials))
	}
	if handler := o.Tracing.ServerHandler(); handler != nil {
		options = append(options, grpc.StatsHandler(handler))
	}
	options = append(options, o.Transport...)
	s := &Server{
		Server: grpc.NewServer(options...),
		guard:  g,
		grace:  o.grace(),
		health: health.NewServer(),
	}
	s.SetReady(false)
	healthv1.RegisterHealthServer(s.Server, s.health)
	if o.Reflection {
		reflection.Register(s.Server)
	}
	return s
}

// SetReady sets what the health service answers for the whole server.
func (s *Server) SetReady(ready bool) {
	status := healthv1.HealthCheckResponse_NOT_SERVING
	if ready {
		status = healthv1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", status)
}

// Serve serves the listener until ctx ends. Then it takes no new calls, ends
// streams, waits for the other calls in flight, at most for the grace period,
// and returns nil when every handler has returned. A server serves once.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	done := make(chan error, 1)
	go func() { done <- s.Server.Serve(listener) }()
	select {
	case err := <-done:
		return served(listener, err)
	case <-ctx.Done():
	}
	s.health.Shutdown()
	s.guard.stop()
	cut := time.AfterFunc(s.grace, s.Server.Stop)
	s.Server.GracefulStop()
	cut.Stop()
	return served(listener, <-done)
}

// served makes of what gRPC's Serve returned an error that says where.
func served(listener net.Listener, err error) error {
	if err == nil || errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return fmt.Errorf("serve gRPC on %s: %w", listener.Addr(), err)
}
