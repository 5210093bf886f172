// Package publicapi has the handlers of the public gRPC services: they turn
// messages into calls of the backend and back.
package publicapi

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// Authenticator tells who a caller is.
type Authenticator interface {
	// Authenticate resolves a secret, which is empty when none came. Its error
	// goes to the caller.
	Authenticate(ctx context.Context, secret string) (*registryv1.Principal, error)
}

type callerKey struct{}

// Authenticate is the interceptor that finds out who calls a method of the
// public API, once a call. Other services on the same server (health,
// reflection) are open to all.
func Authenticate(a Authenticator) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if !strings.HasPrefix(info.FullMethod, "/sluice.") {
			return handler(ctx, req)
		}
		secret, err := secretOf(ctx)
		if err != nil {
			return nil, err
		}
		principal, err := a.Authenticate(ctx, secret)
		if err != nil {
			return nil, err
		}
		return handler(context.WithValue(ctx, callerKey{}, grants.CallerOf(principal)), req)
	}
}

// callerOf returns who makes a call; whom the interceptor did not see is granted
// nothing.
func callerOf(ctx context.Context) grants.Caller {
	caller, _ := ctx.Value(callerKey{}).(grants.Caller)
	return caller
}

// The metadata that carries a secret.
const (
	authorization = "authorization" // Bearer esk_…
	keyHeader     = "x-es-key"      // esk_…
)

func secretOf(ctx context.Context) (string, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if values := md.Get(keyHeader); len(values) > 0 {
		return values[0], nil
	}
	values := md.Get(authorization)
	if len(values) == 0 {
		return "", nil
	}
	scheme, secret, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", errs.New(errs.Unauthenticated, "BAD_CREDENTIALS", "the authorization must be: Bearer <key>")
	}
	return strings.TrimSpace(secret), nil
}
