// Package rest is the HTTP/JSON door.
//
// grpc-gateway turns requests into calls of the public gRPC services, over a
// connection, so that what stands around those services stands around REST too.
// This package is what the documents ask for and grpc-gateway does otherwise: our
// JSON (package apijson), strict routing with 404, 405 and Allow, strict query
// parameters, {"error"} for every failure, limits on bodies, and what protects a
// server that every process on the machine can reach with a browser.
//
//	panics ── host ── cross-origin, CORS ── routes ─┬─ /healthz /readyz /metrics /openapi.json /docs
//	                                                └─ query ── mux ── gRPC
package rest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	schemav1 "github.com/sluiceio/sluice/gen/go/sluice/schema/v1"
	admingw "github.com/sluiceio/sluice/gen/gw/sluice/admin/v1"
	gw "github.com/sluiceio/sluice/gen/gw/sluice/log/v1"
	schemagw "github.com/sluiceio/sluice/gen/gw/sluice/schema/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/apidocs"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
	"github.com/sluiceio/sluice/services/gateway/internal/schemadoor"
)

// Config is how the door is set up.
type Config struct {
	// MaxBodyBytes limits the body of a request.
	MaxBodyBytes int64
	// MaxFetchRecords and MaxFetchBytes limit what one request reads, but for a
	// first record that is larger.
	MaxFetchRecords, MaxFetchBytes int
	// AnswerBytes is the size of the budget of answers.
	AnswerBytes int64
	// Hosts says which Host headers are taken; nil takes all.
	Hosts *Hosts
	// CORSOrigins are the origins whose pages may read answers.
	CORSOrigins []string
	// Unauthenticated is that callers need no key, so that the pages of other
	// origins must be kept from making requests at all.
	Unauthenticated bool
}

// Deps are what the door stands on.
type Deps struct {
	Logger *slog.Logger
	// Conn reaches the public gRPC services.
	Conn    grpc.ClientConnInterface
	Backend *backend.Backend
	// Gatherer has the process's own metrics.
	Gatherer prometheus.Gatherer
	// Budget limits the bytes of all requests under way together, those of other
	// doors too.
	Budget *semaphore.Weighted
	// Answers limits the bytes of all answers under way together, likewise.
	Answers *semaphore.Weighted
	// Surveys lets so many requests at once put a survey together, likewise.
	Surveys *semaphore.Weighted
	// Ready says whether the gateway serves.
	Ready func() error
}

// New returns the door.
func New(cfg Config, deps Deps) (http.Handler, error) {
	routes, err := routesOf(logv1.File_sluice_log_v1_topic_proto, logv1.File_sluice_log_v1_log_proto, logv1.File_sluice_log_v1_group_proto, adminv1.File_sluice_admin_v1_admin_proto, schemav1.File_sluice_schema_v1_schema_proto)
	if err != nil {
		return nil, err
	}
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, marshaler{}),
		runtime.WithForwardResponseRewriter(rewrite),
		runtime.WithErrorHandler(func(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
			writeFailure(ctx, deps.Logger, w, exchangeOf(ctx).failure(err))
		}),
		runtime.WithRoutingErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, _ *http.Request, status int) {
			writeError(w, status, http.StatusText(status))
		}),
		runtime.WithWriteContentLength(),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptReserved),
		// Nothing passes by its name: metadata is what we say, or a sender could
		// forge what services trust.
		runtime.WithIncomingHeaderMatcher(dropHeader),
		runtime.WithOutgoingHeaderMatcher(dropHeader),
		runtime.WithOutgoingTrailerMatcher(dropHeader),
		runtime.WithMetadata(credentials),
	)
	ctx := context.Background()
	for _, register := range []func() error{
		func() error {
			return gw.RegisterTopicServiceHandlerClient(ctx, mux, logv1.NewTopicServiceClient(deps.Conn))
		},
		func() error {
			return gw.RegisterLogServiceHandlerClient(ctx, mux, logv1.NewLogServiceClient(deps.Conn))
		},
		func() error {
			return gw.RegisterGroupServiceHandlerClient(ctx, mux, logv1.NewGroupServiceClient(deps.Conn))
		},
		func() error {
			return admingw.RegisterAdminServiceHandlerClient(ctx, mux, adminv1.NewAdminServiceClient(deps.Conn))
		},
		func() error {
			return schemagw.RegisterSchemaServiceHandlerClient(ctx, mux, schemav1.NewSchemaServiceClient(deps.Conn))
		},
		func() error {
			return admingw.RegisterKeyServiceHandlerClient(ctx, mux, adminv1.NewKeyServiceClient(deps.Conn))
		},
	} {
		if err := register(); err != nil {
			return nil, fmt.Errorf("register REST routes: %w", err)
		}
	}
	plain, err := apidocs.Handlers()
	if err != nil {
		return nil, err
	}
	plain["/healthz"] = healthz(deps.Backend)
	plain["/readyz"] = readyz(deps.Ready)
	answers := &answers{
		budget: deps.Answers, whole: cfg.AnswerBytes, surveys: deps.Surveys,
		maxRecords: cfg.MaxFetchRecords, maxBytes: cfg.MaxFetchBytes,
	}
	plain["/metrics"] = metrics(deps, answers)
	d := &door{
		logger:  deps.Logger,
		backend: deps.Backend,
		routes:  routes,
		mux:     mux,
		schemas: schemadoor.New(deps.Backend, deps.Logger),
		bodies:  newBodies(cfg.MaxBodyBytes, deps.Budget),
		answers: answers,
		plain:   plain,
	}
	handler := http.Handler(d)
	handler = allowOrigins(cfg.CORSOrigins, handler)
	if cfg.Unauthenticated {
		if handler, err = refuseCrossOrigin(cfg.CORSOrigins, handler); err != nil {
			return nil, err
		}
	}
	handler = checkHost(cfg.Hosts, handler)
	return recoverPanics(deps.Logger, handler), nil
}

func dropHeader(string) (string, bool) { return "", false }

// The headers that a key may come in.
const (
	authorizationHeader = "Authorization"
	keyHeader           = "X-Es-Key"
)

// credentials passes on every X-Es-Key, so that two keys that differ are seen.
// grpc-gateway does so with Authorization by itself.
func credentials(_ context.Context, r *http.Request) metadata.MD {
	return metadata.MD{strings.ToLower(keyHeader): r.Header.Values(keyHeader)}
}

// door finds the route of a request.
type door struct {
	logger  *slog.Logger
	backend *backend.Backend
	routes  []*route
	mux     *runtime.ServeMux
	bodies  *bodies
	answers *answers
	plain   map[string]http.HandlerFunc
	// What serializers speak, under schemadoor.Prefix.
	schemas http.Handler
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler, ok := d.plain[r.URL.Path]; ok {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			writeNotAllowed(w, r.Method, []string{http.MethodGet, http.MethodHead})
			return
		}
		r.Pattern = r.URL.Path
		handler(w, r)
		return
	}
	if r.URL.Path == schemadoor.Prefix || strings.HasPrefix(r.URL.Path, schemadoor.Prefix+"/") {
		d.schemas.ServeHTTP(w, r)
		return
	}
	matched, params, allowed := match(d.routes, r.Method, r.URL.EscapedPath())
	switch {
	case matched != nil:
	case len(allowed) > 0:
		writeNotAllowed(w, r.Method, allowed)
		return
	default:
		writeError(w, http.StatusNotFound, fmt.Sprintf("there is nothing at %s", r.URL.Path))
		return
	}
	r.Pattern = matched.pattern

	// Before anything of the request is looked at: whoever has no key gets no
	// memory for a body either. The service behind asks once more, who it is for.
	caller, err := callerOf(r, d.backend)
	if err != nil {
		writeFailure(r.Context(), d.logger, w, err)
		return
	}
	x := &exchange{route: matched, params: params, claim: claim{answers: d.answers}}
	if err := x.checkPath(); err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	if err := x.readQuery(r); err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	// What would change how grpc-gateway reads and answers: trailers, deadlines,
	// and media types, of which we take any and it logs those it cannot parse.
	for _, name := range []string{"TE", "Grpc-Timeout", "Content-Type", "Accept"} {
		r.Header.Del(name)
	}
	if matched.hasBody {
		x.body = d.bodies.take(w, r)
		r.Body = x.body
	}
	defer x.release()
	switch {
	case matched.reads:
		err = d.reading(r, x, caller)
	case matched.surveys:
		err = x.claim.survey(r.Context())
	}
	if err != nil {
		writeFailure(r.Context(), d.logger, w, err)
		return
	}
	d.mux.ServeHTTP(&answerWriter{ResponseWriter: w, success: matched.success}, r.WithContext(withExchange(r.Context(), x)))
}

// rewrite hands a message to the marshaler together with the exchange that it
// belongs to.
func rewrite(ctx context.Context, m proto.Message) (any, error) {
	return answer{ctx: ctx, exchange: exchangeOf(ctx), message: m}, nil
}
