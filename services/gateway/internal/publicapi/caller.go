// Package publicapi has the handlers of the public gRPC services: they turn
// messages into calls of the backend and back.
package publicapi

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/sluiceio/sluice/services/gateway/internal/grants"
)

// Authenticator tells who a caller is.
type Authenticator interface {
	// Authenticate resolves a secret, which is empty when none came. Its error
	// goes to the caller.
	Authenticate(ctx context.Context, secret string) (grants.Caller, error)
	// Secret finds the secret in the values of both headers.
	Secret(authorization, esKey []string) (string, error)
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
		md, _ := metadata.FromIncomingContext(ctx)
		secret, err := a.Secret(md.Get(authorization), md.Get(keyHeader))
		if err != nil {
			return nil, err
		}
		caller, err := a.Authenticate(ctx, secret)
		if err != nil {
			return nil, err
		}
		resp, err := handler(context.WithValue(ctx, callerKey{}, caller), req)
		if waited, ok := req.(waiting); ok && err == nil && waited.GetMaxWaitMs() > 0 {
			// The key may have been revoked while this waited for records.
			if _, err := a.Authenticate(ctx, secret); err != nil {
				return nil, err
			}
		}
		return resp, err
	}
}

// waiting is a request that may wait for records.
type waiting interface{ GetMaxWaitMs() int32 }

// CallerOf returns who makes a call, for the interceptors after Authenticate.
func CallerOf(ctx context.Context) grants.Caller { return callerOf(ctx) }

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
