package rpc

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/invariant"
)

// Local is a connection to the services that are registered on it. A unary call
// runs on the caller's goroutine and costs less than a microsecond; a stream
// runs its handler on a goroutine of its own. See the package comment for what
// follows from messages not being copied.
//
// Of call options it knows those that return something: header, trailer, peer
// and OnFinish.
type Local struct {
	unary  grpc.UnaryServerInterceptor
	stream grpc.StreamServerInterceptor
	guard  *guard
	grace  time.Duration

	// client and server make the spans; nil when tracing is off.
	client, server stats.Handler

	// cut ends every call, when the grace period of a stop is over.
	cut    context.Context
	cutNow context.CancelFunc

	calls *inFlight

	// methods are never changed, but replaced under registering.
	methods     atomic.Pointer[map[string]*method]
	registering sync.Mutex
}

var (
	_ grpc.ClientConnInterface = (*Local)(nil)
	_ grpc.ServiceRegistrar    = (*Local)(nil)
)

// NewLocal returns a connection without services.
func NewLocal(o Options) *Local {
	g := newGuard(o.Logger)
	l := &Local{
		unary:  chainUnary(o.unary(g)),
		stream: chainStream(o.stream(g)),
		guard:  g,
		grace:  o.grace(),
		client: o.Tracing.ClientHandler(),
		server: o.Tracing.ServerHandler(),
		calls:  newInFlight(),
	}
	l.cut, l.cutNow = context.WithCancel(context.Background())
	l.methods.Store(&map[string]*method{})
	return l
}

// RegisterService adds a service. Like a gRPC server, it panics on a service of
// the wrong type or one that is there already.
func (l *Local) RegisterService(desc *grpc.ServiceDesc, impl any) {
	if want := reflect.TypeOf(desc.HandlerType).Elem(); !reflect.TypeOf(impl).Implements(want) {
		panic(fmt.Sprintf("rpc: %T does not implement %v", impl, want))
	}
	l.registering.Lock()
	defer l.registering.Unlock()
	methods := maps.Clone(*l.methods.Load())
	add := func(name string, m *method) {
		full := "/" + desc.ServiceName + "/" + name
		if methods[full] != nil {
			panic("rpc: " + full + " is registered twice")
		}
		methods[full] = m
	}
	for i := range desc.Methods {
		add(desc.Methods[i].MethodName, unaryMethod(&desc.Methods[i], impl))
	}
	for i := range desc.Streams {
		add(desc.Streams[i].StreamName, &method{service: impl, stream: &desc.Streams[i]})
	}
	l.methods.Store(&methods)
}

// Stop takes no new calls, ends streams, waits for the other calls in flight, at
// most for the grace period, and returns when every handler has returned.
func (l *Local) Stop() {
	l.calls.refuse()
	l.guard.stop()
	cut := time.AfterFunc(l.grace, l.cutNow)
	<-l.calls.none
	cut.Stop()
	l.cutNow()
}

// begin finds a method and counts the call; the caller ends it with calls.end.
func (l *Local) begin(name string) (*method, error) {
	if !l.calls.begin() {
		return nil, errStopping
	}
	m := (*l.methods.Load())[name]
	if m == nil {
		l.calls.end()
		return nil, status.Errorf(codes.Unimplemented, "unknown method %s", name)
	}
	return m, nil
}

// Invoke makes a unary call.
func (l *Local) Invoke(ctx context.Context, name string, args, reply any, opts ...grpc.CallOption) error {
	var err error
	if l.client == nil {
		err = l.invoke(ctx, name, args, reply, opts)
	} else {
		begin := time.Now()
		ctx := l.client.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: name})
		l.client.HandleRPC(ctx, &stats.Begin{Client: true, BeginTime: begin})
		err = l.invoke(ctx, name, args, reply, opts)
		l.client.HandleRPC(ctx, &stats.End{Client: true, BeginTime: begin, EndTime: time.Now(), Error: err})
	}
	onFinish(opts, err)
	return err
}

func (l *Local) invoke(ctx context.Context, name string, args, reply any, opts []grpc.CallOption) error {
	if err := ctx.Err(); err != nil {
		return arrived(err)
	}
	m, err := l.begin(name)
	if err != nil {
		return arrived(err)
	}
	defer l.calls.end()
	if m.handler == nil {
		return arrived(status.Errorf(codes.Unimplemented, "%s is a stream", name))
	}
	c := &unaryCall{call{local: l, caller: ctx, method: name}}
	answer, err := c.run(incoming(ctx), m, args)
	c.finish()
	c.deliver(opts)
	switch {
	case err == nil:
		return arrived(handOver(reply, answer))
	case ctx.Err() != nil:
		// What the handler makes of the end of its context is its own affair.
		return arrived(ctx.Err())
	case l.cut.Err() != nil && errs.KindOf(err) == errs.Canceled:
		return errStopping
	default:
		return arrived(err)
	}
}

// unaryCall is a unary call under way.
type unaryCall struct{ call }

// Caller is for package caller.
func (c *unaryCall) Caller() context.Context { return c.caller }

func (c *unaryCall) run(values context.Context, m *method, request any) (answer any, err error) {
	ctx := c.open(values, c)
	handler := c.local.server
	if handler == nil {
		return c.handle(ctx, m, request)
	}
	begin := time.Now()
	ctx = handler.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: c.method})
	handler.HandleRPC(ctx, &stats.Begin{BeginTime: begin})
	defer func() {
		handler.HandleRPC(ctx, &stats.End{BeginTime: begin, EndTime: time.Now(), Error: err})
	}()
	return c.handle(ctx, m, request)
}

func (c *unaryCall) handle(ctx context.Context, m *method, request any) (any, error) {
	if !invariant.Enabled && m.takes(request) {
		return c.local.unary(ctx, request, m.info, m.handler)
	}
	// Another Go type of the same message, or a test build.
	own := m.empty()
	if err := handOver(own, request); err != nil {
		return nil, err
	}
	answer, err := c.local.unary(ctx, own, m.info, m.handler)
	if invariant.Enabled {
		// The request itself may be nil, which no message equals.
		asSent := m.empty()
		invariant.Checkf(handOver(asSent, request) == nil && proto.Equal(own.(proto.Message), asSent.(proto.Message)),
			"the handler of %s changed its request", c.method)
	}
	return answer, err
}

// localPeer is whom a handler sees, and whom a caller sees.
var localPeer = &peer.Peer{Addr: localAddr{}}

type localAddr struct{}

// Network returns the name of the network.
func (localAddr) Network() string { return "local" }

// String returns the address.
func (localAddr) String() string { return "in-process" }

// noMetadata is what a handler sees beside the message when there is nothing
// else: the peer, and metadata without a pair, as handlers over the wire always
// find some.
var noMetadata = metadata.NewIncomingContext(
	peer.NewContext(context.Background(), localPeer), metadata.MD{})

// incoming returns the values that the caller's outgoing metadata becomes. The
// caller's own values are not among them.
func incoming(ctx context.Context) context.Context {
	// A copy, with keys in lower case.
	if md, ok := metadata.FromOutgoingContext(ctx); ok {
		return metadata.NewIncomingContext(noMetadata, md)
	}
	return noMetadata
}

// arrived makes of an error what the wire would.
func arrived(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); !ok {
		err = status.FromContextError(err).Err()
	}
	return errs.FromStatus(err)
}

func onFinish(opts []grpc.CallOption, err error) {
	for _, opt := range opts {
		if o, ok := opt.(grpc.OnFinishCallOption); ok {
			o.OnFinish(err)
		}
	}
}
