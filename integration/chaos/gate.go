package chaos

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"google.golang.org/grpc"
)

// errShut is what a request gets that was not sent.
var errShut = errors.New("the gate is shut")

// gate ends clients that nothing else ends: once it is shut no request is sent,
// and those that were are answered as ever, so that none is left with an outcome
// that nobody knows and that may still be written.
type gate struct{ shut atomic.Bool }

// over returns a transport with the gate before it.
func (g *gate) over(inner http.RoundTripper) http.RoundTripper { return gatedTransport{g, inner} }

type gatedTransport struct {
	gate  *gate
	inner http.RoundTripper
}

func (t gatedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.gate.shut.Load() {
		return nil, errShut
	}
	return t.inner.RoundTrip(r)
}

func (g *gate) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if g.shut.Load() {
		return errShut
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}
