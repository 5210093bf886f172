// Package gateway is the service that clients talk to: HTTP/JSON, gRPC and
// the binary protocol, over one backend that finds its way through the cluster.
// It keeps nothing: any number of gateways serve the same cluster.
package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	schemav1 "github.com/sluiceio/sluice/gen/go/sluice/schema/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/apijson"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
	"github.com/sluiceio/sluice/services/gateway/internal/binproto"
	"github.com/sluiceio/sluice/services/gateway/internal/grpcdoor"
	"github.com/sluiceio/sluice/services/gateway/internal/publicapi"
	"github.com/sluiceio/sluice/services/gateway/internal/rest"
	"github.com/sluiceio/sluice/services/gateway/internal/topicconf"
	"github.com/sluiceio/sluice/services/kit/certs"
	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/kit/life"
	"github.com/sluiceio/sluice/services/kit/obs"
	"github.com/sluiceio/sluice/services/kit/openfiles"
	"github.com/sluiceio/sluice/services/kit/rpc"
)

// Dialer gives connections to the nodes of the cluster; rpc.Dialer of
// services/kit is one.
type Dialer = backend.Dialer

// Finder tells where coordinators and registries are.
type Finder = backend.Finder

// Node is a process of the cluster, as a Finder names it.
type Node = backend.Node

// The roles that a Finder is asked for.
const (
	RoleCoordinator = backend.RoleCoordinator
	RoleRegistry    = backend.RoleRegistry
)

// Deps are what the process gives to the service.
type Deps struct {
	// Nil logs nothing.
	Logger *slog.Logger
	// Gatherer has the metrics of the process, which /metrics shows beside those
	// of topics and groups; nil shows none.
	Gatherer prometheus.Gatherer
	// Registerer takes the series of the gateway; nil shows them to nobody.
	Registerer prometheus.Registerer
	// Tracing makes spans of requests; nil is none.
	Tracing *obs.Tracing
	// Dialer and Finder are the way into the cluster.
	Dialer Dialer
	Finder Finder
	// HTTP, GRPC and Binary are listeners to serve instead of listening on the
	// configured addresses; the service takes them over.
	HTTP, GRPC, Binary net.Listener
	// Now is the clock of record timestamps; nil is the system's.
	Now func() time.Time
}

// Service is one gateway.
type Service struct {
	logger  *slog.Logger
	grace   time.Duration
	backend *backend.Backend
	// local is the way of REST to the public services.
	local *rpc.Local

	// Nil without TLS.
	certs *certs.Pair

	httpListener net.Listener
	http         *http.Server
	grpcListener net.Listener
	grpc         *grpcdoor.Door
	grpcServer   *rpc.Server

	binaryListener net.Listener
	binary         *binproto.Door

	closer life.Closer

	// Closed when the gateway knows the cluster and its doors say so.
	ready chan struct{}
}

// New checks cfg, listens, and makes a service. It starts nothing; until Run is
// called, Close gives back what it has.
func New(cfg Config, deps Deps) (_ *Service, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if cfg.DefaultSegmentBytes == 0 {
		cfg.DefaultSegmentBytes = 1 << 30
	}
	s := &Service{logger: deps.Logger, grace: cfg.StopGrace, ready: make(chan struct{})}
	defer s.closer.CloseOnError(&err)
	if cfg.TLSCert != "" {
		if s.certs, err = certs.Load(certs.Files{Cert: cfg.TLSCert, Key: cfg.TLSKey, Flag: "--tls"}, deps.Logger); err != nil {
			return nil, err
		}
	}
	if s.httpListener, err = s.listen(deps.HTTP, cfg.Bind); err != nil {
		return nil, fmt.Errorf("HTTP API: %w", err)
	}
	if s.grpcListener, err = s.listen(deps.GRPC, cfg.BindGRPC); err != nil {
		return nil, fmt.Errorf("gRPC API: %w", err)
	}
	connections := cmp.Or(cfg.MaxConnections, openfiles.Share(8))
	s.httpListener, s.grpcListener = limited(s.httpListener, connections), limited(s.grpcListener, connections)
	if s.binaryListener, err = s.listen(deps.Binary, cfg.BindBinary); err != nil {
		return nil, fmt.Errorf("binary protocol: %w", err)
	}
	// Bytes of requests under way, whichever door they came through.
	budget := semaphore.NewWeighted(cfg.MaxInflightBodyBytes)
	answers := semaphore.NewWeighted(cfg.MaxInflightBodyBytes)
	surveys := semaphore.NewWeighted(maxSurveys)

	s.backend = backend.New(
		backend.Limits{
			RecordBytes:    cfg.MaxRecordBytes,
			ProduceRecords: apijson.MaxElements,
			FetchRecords:   cfg.MaxFetchRecords,
			FetchBytes:     cfg.MaxFetchBytes,
			Patience:       cfg.LeaderWait,
			Timeout:        cfg.RequestTimeout,
		},
		backend.Deps{
			Logger: deps.Logger,
			Dialer: deps.Dialer,
			Finder: deps.Finder,
			Topics: topicconf.Defaults{SegmentBytes: cfg.DefaultSegmentBytes},
			Now:    deps.Now,

			Authenticated: cfg.Authenticated,
		},
	)
	options := rpc.Options{
		Logger:  deps.Logger,
		Tracing: deps.Tracing,
		Unary:   []grpc.UnaryServerInterceptor{publicapi.Authenticate(s.backend)},
		Grace:   cfg.StopGrace,
	}
	s.local = rpc.NewLocal(options)
	s.registerPublic(s.local)
	if s.grpcListener != nil {
		s.grpc = grpcdoor.New(grpcConfig(cfg), grpcdoor.Deps{
			Logger:     deps.Logger,
			Backend:    s.backend,
			CallerOf:   publicapi.CallerOf,
			Requests:   budget,
			Answers:    answers,
			Surveys:    surveys,
			IsSurvey:   publicapi.IsSurvey,
			Registerer: deps.Registerer,
			TLS:        s.tlsConfig("h2"),
		})
		options := options
		options.Unary = append(slices.Clone(options.Unary), s.grpc.Intercept)
		s.grpcServer = rpc.NewServer(rpc.ServerOptions{
			Options:         options,
			MaxMessageBytes: maxMessageBytes(cfg),
			Reflection:      true,
			Transport:       s.grpc.Transport(),
		})
		s.registerPublic(s.grpc.Bound(s.grpcServer))
	}
	if s.httpListener != nil {
		door, err := rest.New(restConfig(cfg, s.httpListener), rest.Deps{
			Logger:   deps.Logger,
			Conn:     s.local,
			Backend:  s.backend,
			Gatherer: deps.Gatherer,
			Ready:    s.Ready,
			Budget:   budget,
			Answers:  answers,
			Surveys:  surveys,
		})
		if err != nil {
			return nil, err
		}
		s.http = &http.Server{
			Handler:           deps.Tracing.HTTPHandler(door),
			ReadHeaderTimeout: 10 * time.Second,
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    64 << 10,
			ErrorLog:          slog.NewLogLogger(deps.Logger.Handler(), slog.LevelDebug),
			TLSConfig:         s.tlsConfig("h2", "http/1.1"),
		}
	}
	if s.binaryListener != nil {
		s.binary = binproto.New(binaryConfig(cfg), binproto.Deps{
			Logger:   deps.Logger,
			Backend:  s.backend,
			Requests: budget,
			Answers:  answers,
			TLS:      s.tlsConfig(),

			Registerer: deps.Registerer,
			Tracer:     binaryTracer(deps.Tracing),
		})
	}
	return s, nil
}

// maxSurveys is how many surveys are put together at once.
const maxSurveys = 8

const (
	// binaryWrite is how long a client of the binary protocol may take to read a
	// MiB.
	binaryWrite = 10 * time.Second
	// binaryFrame is how long one of its frames may take to arrive, and binaryStall
	// each 64 KiB of it.
	binaryFrame = time.Minute
	binaryStall = 10 * time.Second
	// binaryGrace is how long its clients may stop while others wait for the memory
	// that they hold.
	binaryGrace = 500 * time.Millisecond
	// binaryHandshake is how long its handshake may take.
	binaryHandshake = 10 * time.Second
	// binaryConnection is how many bytes one of its connections may have under way:
	// 32 requests of 1 MiB.
	binaryConnection = 32 << 20
	// binaryBudget is how long its requests wait for others to leave room.
	binaryBudget = 5 * time.Second
)

// binaryTracer is nil without an endpoint, so that requests do nothing for it.
func binaryTracer(t *obs.Tracing) trace.Tracer {
	if !t.Enabled() {
		return nil
	}
	return t.Tracer("github.com/sluiceio/sluice/services/gateway/internal/binproto")
}

func binaryConfig(cfg Config) binproto.Config {
	return binproto.Config{
		MaxPayloadBytes:       int(cfg.MaxRequestBodyBytes),
		MaxRecords:            apijson.MaxElements,
		MaxFetchRecords:       cfg.MaxFetchRecords,
		MaxFetchBytes:         cfg.MaxFetchBytes,
		BudgetBytes:           cfg.MaxInflightBodyBytes,
		ConnectionBytes:       binaryConnection,
		ConnectionsPerAddress: cfg.BinaryMaxConnectionsPerIP,
		IdleTimeout:           cfg.BinaryIdleTimeout,
		WriteTimeout:          binaryWrite,
		FrameTimeout:          binaryFrame,
		StallTimeout:          binaryStall,
		StallGrace:            binaryGrace,
		HandshakeTimeout:      binaryHandshake,
		BudgetTimeout:         binaryBudget,
		Grace:                 cfg.StopGrace,
	}
}

const (
	// grpcBudget is how long gRPC calls wait for others to leave room.
	grpcBudget = 2 * time.Second
	// grpcMessage is how long a message may take to arrive, and grpcStall how long
	// its client may stop, or take for a piece of an answer.
	grpcMessage = time.Minute
	grpcStall   = 10 * time.Second
	// grpcGrace is how long a client may stop while others wait for the memory that
	// its call holds.
	grpcGrace = 500 * time.Millisecond
	// grpcHandshake is how long a connection may take to become one of HTTP/2.
	grpcHandshake = 10 * time.Second
	// grpcPing is after how long a silence a client is asked whether it is there, and
	// grpcPong how long it has for an answer.
	grpcPing = 30 * time.Second
	grpcPong = 10 * time.Second
)

func grpcConfig(cfg Config) grpcdoor.Config {
	return grpcdoor.Config{
		MaxMessageBytes:  maxMessageBytes(cfg),
		MaxElements:      apijson.MaxElements,
		MaxFetchRecords:  cfg.MaxFetchRecords,
		MaxFetchBytes:    cfg.MaxFetchBytes,
		BudgetBytes:      cfg.MaxInflightBodyBytes,
		BudgetTimeout:    grpcBudget,
		MessageTimeout:   grpcMessage,
		StallTimeout:     grpcStall,
		StallGrace:       grpcGrace,
		HandshakeTimeout: grpcHandshake,
		PingAfter:        grpcPing,
		PingTimeout:      grpcPong,
		Grace:            cfg.StopGrace,
	}
}

// limited lets no more than so many connections be open at once.
func limited(listener net.Listener, connections int) net.Listener {
	if listener == nil {
		return nil
	}
	return netutil.LimitListener(listener, connections)
}

// listen returns the listener given, or listens on an address. Neither is nil.
func (s *Service) listen(given net.Listener, address string) (net.Listener, error) {
	listener := given
	switch {
	case given != nil:
	case address == "":
		return nil, nil
	default:
		var err error
		if listener, err = net.Listen("tcp", address); err != nil {
			return nil, err
		}
	}
	s.closer.Push("listener on "+listener.Addr().String(), func() error {
		// The servers have closed it if they served it.
		if err := listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	return listener, nil
}

// tlsConfig is what a door needs to speak TLS, with the protocols that clients may
// choose from; nil without TLS.
func (s *Service) tlsConfig(protocols ...string) *tls.Config {
	if s.certs == nil {
		return nil
	}
	return s.certs.Config(protocols...)
}

// maxMessageBytes is what a gRPC message may have: as much as a request over
// HTTP, and as much as the largest answer, with room for what stands around the
// bytes of records.
func maxMessageBytes(cfg Config) int {
	const perRecord = 64
	answer := cfg.MaxFetchBytes + cfg.MaxRecordBytes + cfg.MaxFetchRecords*perRecord
	return max(int(cfg.MaxRequestBodyBytes), answer)
}

func restConfig(cfg Config, listener net.Listener) rest.Config {
	c := rest.Config{
		MaxBodyBytes:    cfg.MaxRequestBodyBytes,
		MaxFetchRecords: cfg.MaxFetchRecords,
		MaxFetchBytes:   cfg.MaxFetchBytes,
		AnswerBytes:     cfg.MaxInflightBodyBytes,
		CORSOrigins:     cfg.CORSOrigins,
		Unauthenticated: !cfg.Authenticated,
	}
	if cfg.Authenticated {
		return c
	}
	c.Hosts = &rest.Hosts{AnyAddress: cfg.AllowRemoteUnauthenticated}
	names := append([]string(nil), cfg.AllowedHosts...)
	for _, address := range []string{cfg.Bind, listener.Addr().String()} {
		if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
			names = append(names, host)
		}
	}
	if cfg.AllowRemoteUnauthenticated {
		if name, err := os.Hostname(); err == nil {
			names = append(names, name)
		}
	}
	for _, name := range names {
		c.Hosts.Names = append(c.Hosts.Names, strings.ToLower(name))
	}
	return c
}

func (s *Service) registerPublic(r grpc.ServiceRegistrar) {
	logv1.RegisterTopicServiceServer(r, publicapi.NewTopics(s.backend))
	logv1.RegisterLogServiceServer(r, publicapi.NewLog(s.backend))
	logv1.RegisterGroupServiceServer(r, publicapi.NewGroups(s.backend))
	adminv1.RegisterAdminServiceServer(r, publicapi.NewAdmin(s.backend))
	adminv1.RegisterKeyServiceServer(r, publicapi.NewKeys(s.backend))
	schemav1.RegisterSchemaServiceServer(r, publicapi.NewSchemas(s.backend))
}

// Register adds nothing: inside the cluster nobody calls a gateway.
func (s *Service) Register(grpc.ServiceRegistrar) {}

// HTTPAddr returns the address of the HTTP door, nil when there is none.
func (s *Service) HTTPAddr() net.Addr { return addr(s.httpListener) }

// GRPCAddr returns the address of the gRPC door, nil when there is none.
func (s *Service) GRPCAddr() net.Addr { return addr(s.grpcListener) }

// BinaryAddr returns the address of the binary protocol, nil when it is not
// served.
func (s *Service) BinaryAddr() net.Addr { return addr(s.binaryListener) }

func addr(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}

// Ready returns nil once the gateway knows the cluster.
func (s *Service) Ready() error {
	select {
	case <-s.ready:
		return nil
	default:
		return errors.New("no metadata from a coordinator yet")
	}
}

// Run serves until ctx ends. Then it takes no new requests and lets those under
// way end, as long as the grace period lasts.
func (s *Service) Run(ctx context.Context) error {
	// The picture is followed for as long as requests are served.
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	doors := life.NewGroup(ctx)
	followed := confine.Async(func() error {
		// Nobody is served by a picture that nobody keeps.
		defer doors.Stop()
		return s.backend.Run(following)
	})

	doors.Go("drain", func(ctx context.Context) error {
		<-ctx.Done()
		s.backend.Drain()
		return nil
	})
	doors.Go("readiness", s.awaitReady)
	if s.certs != nil {
		doors.Go("certificate", s.certs.Run)
	}
	if s.http != nil {
		doors.Go("HTTP API", s.serveHTTP)
	}
	if s.grpc != nil {
		doors.Go("gRPC API", func(ctx context.Context) error { return s.grpc.Serve(ctx, s.grpcListener) })
	}
	if s.binary != nil {
		doors.Go("binary protocol", func(ctx context.Context) error { return s.binary.Serve(ctx, s.binaryListener) })
	}
	err := doors.Wait()
	s.local.Stop()
	stop()
	return errors.Join(err, <-followed, s.closer.Close())
}

// Close gives back what New acquired. It is for services that are not run.
func (s *Service) Close() error {
	return s.closer.Close()
}

// awaitReady waits for the first picture of the cluster. The health service says
// so before Ready does, so that nobody who asked Ready finds it behind.
func (s *Service) awaitReady(ctx context.Context) error {
	select {
	case <-s.backend.Complete():
	case <-ctx.Done():
		return nil
	}
	if s.grpc != nil {
		s.grpcServer.SetReady(true)
	}
	close(s.ready)
	return nil
}

func (s *Service) serveListener() error {
	if s.certs == nil {
		return s.http.Serve(s.httpListener)
	}
	// The certificate is in the server's TLSConfig.
	return s.http.ServeTLS(s.httpListener, "", "")
}

func (s *Service) serveHTTP(ctx context.Context) error {
	// Requests end with the grace period, not with ctx.
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	s.http.BaseContext = func(net.Listener) context.Context { return requests }
	served := confine.Async(s.serveListener)
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP on %s: %w", s.httpListener.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(requests, s.grace)
	defer cancel()
	if err := s.http.Shutdown(grace); err != nil {
		s.logger.WarnContext(ctx, "requests did not end in time and were cut off", "grace", s.grace)
		cut()
		_ = s.http.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve HTTP on %s: %w", s.httpListener.Addr(), err)
	}
	return nil
}
