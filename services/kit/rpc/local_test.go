package rpc_test

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	testv1 "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/invariant"
	"github.com/sluiceio/sluice/services/kit/rpc"
)

// local returns an in-process connection to handlers.
func local(t *testing.T, h *handlers) *rpc.Local {
	t.Helper()
	l := rpc.NewLocal(rpc.Options{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(l.Stop)
	testv1.RegisterTestServiceServer(l, &service{handlers: h})
	return l
}

func TestLocalHandsBytesOver(t *testing.T) {
	if invariant.Enabled {
		t.Skip("messages are marshalled in test builds")
	}
	request := &testv1.SimpleRequest{Payload: payload("data")}
	var seen *testv1.SimpleRequest
	client := testv1.NewTestServiceClient(local(t, &handlers{
		unary: func(ctx context.Context, r *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			seen = r
			return echo(ctx, r)
		},
		bidi: func(stream testv1.TestService_FullDuplexCallServer) error {
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			return stream.Send(&testv1.StreamingOutputCallResponse{Payload: m.GetPayload()})
		},
	}))
	reply, err := client.UnaryCall(t.Context(), request)
	require.NoError(t, err)
	require.Same(t, request, seen)
	require.Same(t, request.GetPayload(), reply.GetPayload())

	stream, err := client.FullDuplexCall(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&testv1.StreamingOutputCallRequest{Payload: request.GetPayload()}))
	m, err := stream.Recv()
	require.NoError(t, err)
	require.Same(t, request.GetPayload(), m.GetPayload())
}

func TestLocalCallCostsFewAllocations(t *testing.T) {
	if invariant.Enabled {
		t.Skip("messages are marshalled in test builds")
	}
	request := &testv1.SimpleRequest{Payload: payload("data")}
	client := testv1.NewTestServiceClient(local(t, &handlers{unary: echo}))
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := client.UnaryCall(t.Context(), request); err != nil {
			t.Error(err)
		}
	})
	// The call, the client's options and the reply, at both ends.
	require.LessOrEqual(t, allocs, 4.0)
}

func TestLocalTakesOtherTypesOfTheSameMessage(t *testing.T) {
	l := local(t, &handlers{unary: echo})
	descriptor := (&testv1.SimpleRequest{}).ProtoReflect().Descriptor()
	encoded, err := proto.Marshal(&testv1.SimpleRequest{Payload: payload("data")})
	require.NoError(t, err)
	request := dynamicpb.NewMessage(descriptor)
	require.NoError(t, proto.Unmarshal(encoded, request))
	reply := dynamicpb.NewMessage((&testv1.SimpleResponse{}).ProtoReflect().Descriptor())
	require.NoError(t, l.Invoke(t.Context(), testv1.TestService_UnaryCall_FullMethodName, request, reply))
	want := &testv1.SimpleResponse{Payload: payload("data"), Username: "echo"}
	require.Empty(t, cmp.Diff(want, reply, protocmp.Transform()))
}

func TestLocalKeepsFieldsItDoesNotKnow(t *testing.T) {
	unknown := []byte{0xF8, 0x07, 0x01} // field 127, varint 1
	client := testv1.NewTestServiceClient(local(t, &handlers{
		unary: func(context.Context, *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			reply := &testv1.SimpleResponse{}
			reply.ProtoReflect().SetUnknown(unknown)
			return reply, nil
		},
	}))
	reply, err := client.UnaryCall(t.Context(), &testv1.SimpleRequest{})
	require.NoError(t, err)
	require.EqualValues(t, unknown, reply.ProtoReflect().GetUnknown())
}

func TestLocalTakesOneReplyToManyCallers(t *testing.T) {
	shared := &testv1.SimpleResponse{Payload: payload("cached")}
	client := testv1.NewTestServiceClient(local(t, &handlers{
		unary: func(context.Context, *testv1.SimpleRequest) (*testv1.SimpleResponse, error) { return shared, nil },
	}))
	done := make(chan error)
	for range 4 {
		go func() {
			for range 100 {
				reply, err := client.UnaryCall(context.Background(), &testv1.SimpleRequest{})
				if err == nil {
					// As a server over TCP does with the same message.
					_, err = proto.Marshal(shared)
				}
				if err != nil || string(reply.GetPayload().GetBody()) != "cached" {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		require.NoError(t, <-done)
	}
}

func TestTestBuildsFindHandlersThatChangeTheirRequest(t *testing.T) {
	if !invariant.Enabled {
		t.Skip("messages are not marshalled in production")
	}
	client := testv1.NewTestServiceClient(local(t, &handlers{
		unary: func(ctx context.Context, r *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			r.GetPayload().GetBody()[0] = 'X'
			return echo(ctx, r)
		},
	}))
	require.PanicsWithValue(t, "invariant: the handler of /grpc.testing.TestService/UnaryCall changed its request", func() {
		_, _ = client.UnaryCall(t.Context(), &testv1.SimpleRequest{Payload: payload("data")})
	})
}

func TestTestBuildsFindSendersThatChangeWhatTheySent(t *testing.T) {
	if !invariant.Enabled {
		t.Skip("messages are not marshalled in production")
	}
	changed := make(chan struct{})
	client := testv1.NewTestServiceClient(local(t, &handlers{
		serverStream: func(_ *testv1.StreamingOutputCallRequest, stream testv1.TestService_StreamingOutputCallServer) error {
			m := numbered(1)
			if err := stream.Send(m); err != nil {
				return err
			}
			m.Payload.Body[0] = 'X'
			close(changed)
			return nil
		},
	}))
	stream, err := client.StreamingOutputCall(t.Context(), &testv1.StreamingOutputCallRequest{})
	require.NoError(t, err)
	<-changed
	require.Panics(t, func() { _, _ = stream.Recv() })
}

func TestLocalRegistersLikeAServer(t *testing.T) {
	l := local(t, &handlers{})
	require.Panics(t, func() { testv1.RegisterTestServiceServer(l, &service{}) }, "twice")
	require.Panics(t, func() { l.RegisterService(&testv1.LoadBalancerStatsService_ServiceDesc, &service{}) }, "of the wrong type")
}

func TestLocalWantsMethodsAsTheyAreGenerated(t *testing.T) {
	desc := testv1.TestService_ServiceDesc
	desc.Streams = nil
	desc.Methods = []grpc.MethodDesc{{MethodName: "UnaryCall", Handler: func(service any, ctx context.Context, _ func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		return service.(testv1.TestServiceServer).UnaryCall(ctx, &testv1.SimpleRequest{})
	}}}
	l := rpc.NewLocal(rpc.Options{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(l.Stop)
	require.PanicsWithValue(t, "rpc: the code of method UnaryCall passes nothing to an interceptor", func() {
		l.RegisterService(&desc, &service{handlers: &handlers{unary: echo}})
	})
}

func TestLocalStopReachesAHandlerThatWaitsForAMessage(t *testing.T) {
	waiting := make(chan struct{})
	l := rpc.NewLocal(rpc.Options{Logger: slog.New(slog.DiscardHandler), Grace: time.Hour})
	testv1.RegisterTestServiceServer(l, &service{handlers: &handlers{
		bidi: func(stream testv1.TestService_FullDuplexCallServer) error {
			close(waiting)
			_, err := stream.Recv()
			return err
		},
	}})
	stream, err := testv1.NewTestServiceClient(l).FullDuplexCall(t.Context())
	require.NoError(t, err)
	<-waiting
	l.Stop()
	_, err = stream.Recv()
	require.Equal(t, "STOPPING", errs.Reason(err))
}

// A nil request is an empty one, as on the wire.
func TestANilRequest(t *testing.T) {
	l := rpc.NewLocal(rpc.Options{Logger: slog.New(slog.DiscardHandler)})
	defer l.Stop()
	testv1.RegisterTestServiceServer(l, &service{handlers: &handlers{
		unary: func(_ context.Context, req *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			return &testv1.SimpleResponse{Username: strconv.Itoa(int(req.ResponseSize))}, nil
		},
	}})
	resp, err := testv1.NewTestServiceClient(l).UnaryCall(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "0", resp.GetUsername())
}
