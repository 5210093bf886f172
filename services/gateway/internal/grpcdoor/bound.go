package grpcdoor

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/rpc"
)

// Bound returns where services are registered that the door is to serve with a
// server of Intercept. All are registered before Serve.
func (d *Door) Bound(server *rpc.Server) grpc.ServiceRegistrar {
	d.server = server
	return registrar{d}
}

type registrar struct{ door *Door }

// RegisterService registers a service of unary methods. It panics when there are
// others, which need bounds that nobody has thought of.
func (r registrar) RegisterService(desc *grpc.ServiceDesc, impl any) {
	if len(desc.Streams) > 0 {
		panic(fmt.Sprintf("grpcdoor: %s has streams", desc.ServiceName))
	}
	bound := *desc
	bound.Methods = make([]grpc.MethodDesc, len(desc.Methods))
	for i, m := range desc.Methods {
		bound.Methods[i] = grpc.MethodDesc{MethodName: m.MethodName, Handler: r.door.bind(m.Handler)}
	}
	r.door.server.RegisterService(&bound, impl)
}

// bind has a handler run while its call's memory is held, and answer with what the
// door has to say of it. It is run before anything of the message is read.
func (d *Door) bind(handler grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (resp any, err error) {
		c := callOf(ctx)
		if c == nil || !c.enter() {
			return nil, status.FromContextError(context.Canceled).Err()
		}
		defer c.leave()
		defer func() {
			if value := recover(); value != nil {
				resp, err = nil, errs.Mask(ctx, d.deps.Logger, confine.Recovered(value))
			}
			if err != nil {
				c.fail(err)
			}
		}()
		if err := c.admit(); err != nil {
			d.metrics.refuse(err)
			return nil, err
		}
		if resp, err = handler(srv, ctx, c.receive(decode), interceptor); err != nil {
			return nil, err
		}
		if c.messages.compressed {
			// The answer's bytes would be given back when they are compressed.
			if err := grpc.SetSendCompressor(ctx, encoding.Identity); err != nil {
				return nil, err
			}
		}
		return c.parcel(resp), nil
	}
}
