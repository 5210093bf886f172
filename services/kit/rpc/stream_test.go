package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testv1 "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/rpc"
)

func numbered(i int) *testv1.StreamingOutputCallResponse {
	return &testv1.StreamingOutputCallResponse{Payload: payload(strconv.Itoa(i))}
}

func TestServerStream(t *testing.T) {
	for name, fail := range map[string]error{"success": nil, "failure": errs.New(errs.OutOfRange, "TRUNCATED", "cut")} {
		t.Run(name, func(t *testing.T) {
			onEach(t, rpc.Options{}, func(t *testing.T, l link) {
				const count = 100
				l.serverStream = func(req *testv1.StreamingOutputCallRequest, stream testv1.TestService_StreamingOutputCallServer) error {
					md, _ := metadata.FromIncomingContext(stream.Context())
					stream.SetTrailer(metadata.Pairs("t", md.Get("principal")[0]))
					if err := stream.SendHeader(metadata.Pairs("h", string(req.GetPayload().GetBody()))); err != nil {
						return err
					}
					for i := range count {
						if err := stream.Send(numbered(i)); err != nil {
							return err
						}
					}
					return fail
				}
				ctx := metadata.AppendToOutgoingContext(t.Context(), "principal", "alice")
				var header, trailer metadata.MD
				stream, err := l.StreamingOutputCall(ctx, &testv1.StreamingOutputCallRequest{Payload: payload("req")},
					grpc.Header(&header), grpc.Trailer(&trailer))
				require.NoError(t, err)
				got, err := stream.Header()
				require.NoError(t, err)
				require.Equal(t, []string{"req"}, got.Get("h"))
				for i := range count {
					m, err := stream.Recv()
					require.NoError(t, err)
					require.Equal(t, strconv.Itoa(i), string(m.GetPayload().GetBody()))
				}
				_, err = stream.Recv()
				if fail == nil {
					require.Equal(t, io.EOF, err)
				} else {
					require.ErrorIs(t, err, fail)
				}
				require.Equal(t, []string{"alice"}, stream.Trailer().Get("t"))
				require.Equal(t, []string{"alice"}, trailer.Get("t"))
				require.Equal(t, []string{"req"}, header.Get("h"))
			})
		})
	}
}

func TestHeaderComesBeforeTheFirstMessage(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		read := make(chan struct{})
		l.serverStream = func(_ *testv1.StreamingOutputCallRequest, stream testv1.TestService_StreamingOutputCallServer) error {
			if err := stream.SendHeader(metadata.Pairs("h", "early")); err != nil {
				return err
			}
			<-read
			return nil
		}
		stream, err := l.StreamingOutputCall(t.Context(), &testv1.StreamingOutputCallRequest{})
		require.NoError(t, err)
		header, err := stream.Header()
		require.NoError(t, err)
		require.Equal(t, []string{"early"}, header.Get("h"))
		close(read)
		_, err = stream.Recv()
		require.Equal(t, io.EOF, err)
	})
}

func TestHeaderOfAHandlerThatSendsNoneIsNotWaitedFor(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		l.serverStream = func(*testv1.StreamingOutputCallRequest, testv1.TestService_StreamingOutputCallServer) error {
			return errs.New(errs.NotFound, "X", "x")
		}
		stream, err := l.StreamingOutputCall(t.Context(), &testv1.StreamingOutputCallRequest{})
		require.NoError(t, err)
		_, err = stream.Header()
		require.NoError(t, err)
		_, err = stream.Recv()
		require.Equal(t, errs.NotFound, errs.KindOf(err))
	})
}

func TestSlowReaderHoldsTheSenderBack(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		const count = 40
		var sent atomic.Int64
		l.serverStream = func(_ *testv1.StreamingOutputCallRequest, stream testv1.TestService_StreamingOutputCallServer) error {
			big := &testv1.StreamingOutputCallResponse{Payload: &testv1.Payload{Body: make([]byte, 1<<20)}}
			for range count {
				if err := stream.Send(big); err != nil {
					return err
				}
				sent.Add(1)
			}
			return nil
		}
		stream, err := l.StreamingOutputCall(t.Context(), &testv1.StreamingOutputCallRequest{})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
		require.Never(t, func() bool { return sent.Load() > count/2 }, 50*time.Millisecond, 5*time.Millisecond)
		for range count - 1 {
			_, err := stream.Recv()
			require.NoError(t, err)
		}
		_, err = stream.Recv()
		require.Equal(t, io.EOF, err)
	})
}

func TestCancelEndsAStreamOnBothSides(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		ended := make(chan error, 1)
		l.serverStream = func(_ *testv1.StreamingOutputCallRequest, stream testv1.TestService_StreamingOutputCallServer) error {
			var err error
			for err == nil {
				err = stream.Send(numbered(1))
			}
			// gRPC ends a stream before its context, by a moment.
			<-stream.Context().Done()
			ended <- stream.Context().Err()
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		finished := make(chan error, 1)
		stream, err := l.StreamingOutputCall(ctx, &testv1.StreamingOutputCallRequest{},
			grpc.OnFinish(func(err error) { finished <- err }))
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Error(t, <-finished, "even though nobody reads any more")
		for err == nil {
			_, err = stream.Recv()
		}
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestClientStream(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		l.clientStream = func(stream testv1.TestService_StreamingInputCallServer) error {
			var size int32
			for {
				m, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					return stream.SendAndClose(&testv1.StreamingInputCallResponse{AggregatedPayloadSize: size})
				}
				if err != nil {
					return err
				}
				size += int32(len(m.GetPayload().GetBody()))
			}
		}
		stream, err := l.StreamingInputCall(t.Context())
		require.NoError(t, err)
		for range 100 {
			require.NoError(t, stream.Send(&testv1.StreamingInputCallRequest{Payload: payload("four")}))
		}
		reply, err := stream.CloseAndRecv()
		require.NoError(t, err)
		require.EqualValues(t, 400, reply.GetAggregatedPayloadSize())
		require.Equal(t, codes.Internal, status.Code(stream.Send(&testv1.StreamingInputCallRequest{})))
	})
}

func TestHandlerThatGoesEarlyIsFoundOutBySending(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		l.clientStream = func(testv1.TestService_StreamingInputCallServer) error {
			return errs.New(errs.PermissionDenied, "NO", "no")
		}
		stream, err := l.StreamingInputCall(t.Context())
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			return errors.Is(stream.Send(&testv1.StreamingInputCallRequest{}), io.EOF)
		}, time.Minute, time.Millisecond)
		_, err = stream.CloseAndRecv()
		require.Equal(t, "NO", errs.Reason(err))
	})
}

func TestErrorAfterTheOnlyResponseCounts(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		for name, c := range map[string]struct {
			handler func(testv1.TestService_StreamingInputCallServer) error
			kind    errs.Kind
		}{
			"error": {func(s testv1.TestService_StreamingInputCallServer) error {
				return errors.Join(s.SendAndClose(&testv1.StreamingInputCallResponse{}), errs.New(errs.Aborted, "LATE", "late"))
			}, errs.Aborted},
			"no response": {func(testv1.TestService_StreamingInputCallServer) error { return nil }, errs.Internal},
			"two responses": {func(s testv1.TestService_StreamingInputCallServer) error {
				return errors.Join(s.SendMsg(&testv1.StreamingInputCallResponse{}), s.SendMsg(&testv1.StreamingInputCallResponse{}))
			}, errs.Internal},
		} {
			l.clientStream = c.handler
			stream, err := l.StreamingInputCall(t.Context())
			require.NoError(t, err, name)
			_, err = stream.CloseAndRecv()
			require.Error(t, err, name)
			require.Equal(t, c.kind, errs.KindOf(err), name)
		}
	})
}

func TestBidi(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		l.bidi = func(stream testv1.TestService_FullDuplexCallServer) error {
			for {
				m, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				if err := stream.Send(&testv1.StreamingOutputCallResponse{Payload: m.GetPayload()}); err != nil {
					return err
				}
			}
		}
		stream, err := l.FullDuplexCall(t.Context())
		require.NoError(t, err)
		const count = 1000
		sent := make(chan error, 1)
		go func() {
			for i := range count {
				if err := stream.Send(&testv1.StreamingOutputCallRequest{Payload: payload(strconv.Itoa(i))}); err != nil {
					sent <- err
					return
				}
			}
			sent <- stream.CloseSend()
		}()
		for i := range count {
			m, err := stream.Recv()
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(i), string(m.GetPayload().GetBody()))
		}
		require.NoError(t, <-sent)
		_, err = stream.Recv()
		require.Equal(t, io.EOF, err)
		_, err = stream.Recv()
		require.Error(t, err, "the end stays the end")
	})
}

func TestPanicInAStreamIsAnErrorOfOneCall(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		l.bidi = func(testv1.TestService_FullDuplexCallServer) error { panic("secret") }
		stream, err := l.FullDuplexCall(t.Context())
		require.NoError(t, err)
		_, err = stream.Recv()
		requireMasked(t, l, err, "panic: secret")
	})
}

func TestStreamInterceptorsStandWithinTheGuard(t *testing.T) {
	var order []string
	note := func(name string) grpc.StreamServerInterceptor {
		return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			order = append(order, fmt.Sprint(name, info.IsClientStream, info.IsServerStream, info.FullMethod))
			return handler(srv, stream)
		}
	}
	o := rpc.Options{Stream: []grpc.StreamServerInterceptor{note("first"), note("second")}}
	onEach(t, o, func(t *testing.T, l link) {
		order = nil
		l.serverStream = func(*testv1.StreamingOutputCallRequest, testv1.TestService_StreamingOutputCallServer) error {
			return nil
		}
		stream, err := l.StreamingOutputCall(t.Context(), &testv1.StreamingOutputCallRequest{})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.Equal(t, io.EOF, err)
		const call = "false true/grpc.testing.TestService/StreamingOutputCall"
		require.Equal(t, []string{"first" + call, "second" + call}, order)
	})
}

func TestStopEndsStreamsAtOnce(t *testing.T) {
	onEach(t, rpc.Options{Grace: time.Minute}, func(t *testing.T, l link) {
		l.serverStream = func(_ *testv1.StreamingOutputCallRequest, stream testv1.TestService_StreamingOutputCallServer) error {
			if err := stream.Send(numbered(0)); err != nil {
				return err
			}
			<-stream.Context().Done()
			return stream.Context().Err()
		}
		stream, err := l.StreamingOutputCall(t.Context(), &testv1.StreamingOutputCallRequest{})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
		l.stop()
		_, err = stream.Recv()
		require.Equal(t, errs.Unavailable, errs.KindOf(err))
		require.Equal(t, "STOPPING", errs.Reason(err))
	})
}

func TestUnknownStreams(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		desc := &grpc.StreamDesc{StreamName: "Nothing", ServerStreams: true, ClientStreams: true}
		stream, err := l.conn.NewStream(t.Context(), desc, "/grpc.testing.TestService/Nothing")
		if err == nil {
			err = stream.RecvMsg(&testv1.Empty{})
		}
		require.Equal(t, codes.Unimplemented, status.Code(err))
	})
}

func TestStreamAfterTheEndDoesNotBegin(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := l.FullDuplexCall(ctx)
		require.ErrorIs(t, err, context.Canceled)
	})
}
