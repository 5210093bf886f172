package rpc

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// streamWindow is how many messages may be under way in each direction of a
// stream before the sender waits for the receiver.
const streamWindow = 8

// localStream is a stream under way, seen by both ends: [serverEnd] has the
// handler's methods and [clientEnd] the caller's.
//
// Messages go through two channels. requests is closed by CloseSend. responses
// never is: the handler's return sets err and closes done, and the caller reads
// what is still in responses before it looks at err.
type localStream struct {
	call
	requests  chan sent
	responses chan sent
	// done is closed when the handler has returned. err is written before and
	// read after.
	done chan struct{}
	err  error
}

// NewStream begins a stream. As with any gRPC connection, the caller reads it to
// its end or ends ctx; the handler runs until then.
func (l *Local) NewStream(ctx context.Context, desc *grpc.StreamDesc, name string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	begin := time.Now()
	if l.client != nil {
		ctx = l.client.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: name})
		l.client.HandleRPC(ctx, &stats.Begin{
			Client: true, BeginTime: begin,
			IsClientStream: desc.ClientStreams, IsServerStream: desc.ServerStreams,
		})
	}
	s, err := l.newStream(ctx, name)
	c := &clientEnd{l: l, s: s, desc: desc, opts: opts, ctx: ctx, begin: begin}
	if err != nil {
		err = arrived(err)
		c.end(err)
		return nil, err
	}
	// A caller that ends its context may never look at the stream again.
	c.forget = context.AfterFunc(ctx, func() {
		<-s.done
		c.end(arrived(ctx.Err()))
	})
	return c, nil
}

func (l *Local) newStream(ctx context.Context, name string) (*localStream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m, err := l.begin(name)
	if err != nil {
		return nil, err
	}
	if m.stream == nil {
		l.calls.end()
		return nil, status.Errorf(codes.Unimplemented, "%s is no stream", name)
	}
	s := &localStream{
		call:      call{local: l, caller: ctx, method: name, headerSent: make(chan struct{})},
		requests:  make(chan sent, streamWindow),
		responses: make(chan sent, streamWindow),
		done:      make(chan struct{}),
	}
	values := incoming(ctx)
	go func() {
		defer l.calls.end()
		s.err = s.run(values, m)
		s.finish()
		close(s.done)
	}()
	return s, nil
}

func (s *localStream) run(values context.Context, m *method) (err error) {
	ctx, cancel := context.WithCancel(s.open(values, s))
	defer cancel()
	// A handler that waits for a message does not see the guard's context.
	defer context.AfterFunc(s.local.guard.stopping, cancel)()
	info := &grpc.StreamServerInfo{
		FullMethod:     s.method,
		IsClientStream: m.stream.ClientStreams,
		IsServerStream: m.stream.ServerStreams,
	}
	if handler := s.local.server; handler != nil {
		begin := time.Now()
		ctx = handler.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: s.method})
		handler.HandleRPC(ctx, &stats.Begin{
			BeginTime: begin, IsClientStream: info.IsClientStream, IsServerStream: info.IsServerStream,
		})
		defer func() {
			handler.HandleRPC(ctx, &stats.End{BeginTime: begin, EndTime: time.Now(), Error: err})
		}()
	}
	return s.local.stream(m.service, &serverEnd{s, ctx}, info, m.stream.Handler)
}

// serverEnd is a stream as its handler sees it.
type serverEnd struct {
	s   *localStream
	ctx context.Context
}

var _ grpc.ServerStream = (*serverEnd)(nil)

// Context returns the context of the call.
func (e *serverEnd) Context() context.Context { return e.ctx }

// SetHeader adds to the header.
func (e *serverEnd) SetHeader(md metadata.MD) error { return e.s.SetHeader(md) }

// SendHeader sends the header.
func (e *serverEnd) SendHeader(md metadata.MD) error { return e.s.SendHeader(md) }

// SetTrailer adds to the trailer.
func (e *serverEnd) SetTrailer(md metadata.MD) { _ = e.s.SetTrailer(md) }

// SendMsg sends a message, and waits while the window is full.
func (e *serverEnd) SendMsg(m any) error {
	message, err := send(m)
	if err != nil {
		return err
	}
	e.s.mu.Lock()
	e.s.sendHeaderLocked()
	e.s.mu.Unlock()
	select {
	case <-e.ctx.Done():
		return status.FromContextError(e.ctx.Err()).Err()
	case e.s.responses <- message:
		return nil
	}
}

// RecvMsg receives a message; io.EOF when the caller has sent its last.
func (e *serverEnd) RecvMsg(m any) error {
	select {
	case <-e.ctx.Done():
		return status.FromContextError(e.ctx.Err()).Err()
	case message, ok := <-e.s.requests:
		if !ok {
			return io.EOF
		}
		return message.receive(m)
	}
}

// clientEnd is a stream as its caller sees it.
type clientEnd struct {
	l *Local
	// s is nil when the stream did not begin.
	s    *localStream
	desc *grpc.StreamDesc
	opts []grpc.CallOption
	// ctx is the caller's.
	ctx   context.Context
	begin time.Time
	// closed: CloseSend was called. Sending is the caller's one goroutine.
	closed bool
	// once guards end.
	once sync.Once
	// forget takes back the wish to hear of the end of ctx. It is set when
	// NewStream returns, which may be after ctx has ended.
	forget func() bool
}

var _ grpc.ClientStream = (*clientEnd)(nil)

// Context returns the context of the call.
func (e *clientEnd) Context() context.Context { return e.ctx }

// Header waits for the header.
func (e *clientEnd) Header() (metadata.MD, error) {
	select {
	case <-e.s.headerSent:
		return e.s.header(), nil
	case <-e.ctx.Done():
		return nil, arrived(e.ctx.Err())
	}
}

// Trailer returns the trailer, once the stream has ended.
func (e *clientEnd) Trailer() metadata.MD { return e.s.trailer() }

// CloseSend tells the handler that there is no further message.
func (e *clientEnd) CloseSend() error {
	if !e.closed {
		e.closed = true
		close(e.s.requests)
	}
	return nil
}

// SendMsg sends a message, and waits while the window is full. When the stream
// has ended it returns io.EOF and RecvMsg tells why.
func (e *clientEnd) SendMsg(m any) error {
	if e.closed {
		return arrived(status.Error(codes.Internal, "SendMsg called after CloseSend"))
	}
	message, err := send(m)
	if err != nil {
		return arrived(err)
	}
	if e.ctx.Err() == nil {
		select {
		case <-e.s.done:
		default:
			select {
			case e.s.requests <- message:
				return nil
			case <-e.s.done:
			case <-e.ctx.Done():
			}
		}
	}
	if !e.desc.ClientStreams {
		// Generated code sends the only message before it has a stream to
		// return, and leaves the error to RecvMsg.
		return nil
	}
	return io.EOF
}

// RecvMsg receives a message; io.EOF when the handler has returned without an
// error. Where the handler sends one message only, its return is waited for.
func (e *clientEnd) RecvMsg(m any) error {
	err := e.receive(m)
	ended := errors.Is(err, io.EOF)
	switch {
	case err == nil && e.desc.ServerStreams:
		return nil
	case err == nil:
		err = e.onlyOne()
	case ended && !e.desc.ServerStreams:
		err = arrived(status.Error(codes.Internal, "the handler returned without a response"))
	}
	if ended && e.desc.ServerStreams {
		e.over(nil)
	} else {
		e.over(err)
	}
	return err
}

// onlyOne waits for the end of a stream whose one response has been read.
func (e *clientEnd) onlyOne() error {
	select {
	case <-e.s.done:
	case <-e.ctx.Done():
		return arrived(e.ctx.Err())
	}
	if len(e.s.responses) > 0 {
		return arrived(status.Error(codes.Internal, "the handler sent more than one response"))
	}
	return arrived(e.s.err)
}

func (e *clientEnd) receive(m any) error {
	select {
	case message := <-e.s.responses:
		return arrived(message.receive(m))
	case <-e.s.done:
	case <-e.ctx.Done():
		select {
		case <-e.s.done:
		default:
			return arrived(e.ctx.Err())
		}
	}
	// All that was sent comes before the end.
	select {
	case message := <-e.s.responses:
		return arrived(message.receive(m))
	default:
	}
	if e.s.err != nil {
		return arrived(e.s.err)
	}
	return io.EOF
}

// over is the end of the stream as the caller finds it.
func (e *clientEnd) over(err error) {
	e.forget()
	e.end(err)
}

// end does once what is due at the end of the stream.
func (e *clientEnd) end(err error) {
	e.once.Do(func() {
		if e.s != nil {
			e.s.deliver(e.opts)
		}
		if e.l.client != nil {
			e.l.client.HandleRPC(e.ctx, &stats.End{Client: true, BeginTime: e.begin, EndTime: time.Now(), Error: err})
		}
		onFinish(e.opts, err)
	})
}
