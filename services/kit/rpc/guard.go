package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"google.golang.org/grpc"

	"github.com/sluiceio/sluice/services/kit/errs"
)

// errStopping is what a stream gets that a stopping server ended.
var errStopping = errs.New(errs.Unavailable, "STOPPING", "the server is stopping")

// guard stands around every handler and its interceptors. It lets nothing out
// but errors that may leave the process, and makes an error of a panic.
type guard struct {
	logger *slog.Logger
	// stopping ends when streams are to end.
	stopping context.Context
	stop     context.CancelFunc
}

func newGuard(logger *slog.Logger) *guard {
	g := &guard{logger: logger}
	g.stopping, g.stop = context.WithCancel(context.Background())
	return g
}

func (g *guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
	defer func() {
		if value := recover(); value != nil {
			reply, err = nil, &panicError{value, debug.Stack()}
		}
		if err != nil {
			err = g.mask(ctx, info.FullMethod, err)
		}
	}()
	return handler(ctx, req)
}

func (g *guard) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	// A stream may last for ever, so it has to be told when to end.
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(g.stopping, cancel)()

	defer func() {
		if value := recover(); value != nil {
			err = &panicError{value, debug.Stack()}
		}
		if err == nil {
			return
		}
		if g.stopping.Err() != nil && errs.KindOf(err) == errs.Canceled {
			err = errStopping
		}
		err = g.mask(ctx, info.FullMethod, err)
	}()
	return handler(srv, endingStream{stream, ctx})
}

func (g *guard) mask(ctx context.Context, method string, err error) error {
	return errs.Mask(ctx, g.logger.With("method", method), err)
}

// endingStream is a stream with a context that ends earlier.
type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context returns the context of the call.
func (s endingStream) Context() context.Context { return s.ctx }

// panicError is a panic as an error. The log shows its stack.
type panicError struct {
	value any
	stack []byte
}

// Error returns the value that was panicked with.
func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// LogValue shows the stack beside it.
func (e *panicError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("message", e.Error()), slog.String("stack", string(e.stack)))
}

// chainUnary makes one interceptor of several; the first is the outermost.
func chainUnary(interceptors []grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	if len(interceptors) == 1 {
		return interceptors[0]
	}
	first, rest := interceptors[0], chainUnary(interceptors[1:])
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return first(ctx, req, info, func(ctx context.Context, req any) (any, error) {
			return rest(ctx, req, info, handler)
		})
	}
}

// chainStream makes one interceptor of several; the first is the outermost.
func chainStream(interceptors []grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	if len(interceptors) == 1 {
		return interceptors[0]
	}
	first, rest := interceptors[0], chainStream(interceptors[1:])
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return first(srv, stream, info, func(srv any, stream grpc.ServerStream) error {
			return rest(srv, stream, info, handler)
		})
	}
}
