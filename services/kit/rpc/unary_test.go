package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testv1 "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/rpc"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func echo(_ context.Context, req *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
	return &testv1.SimpleResponse{Payload: req.GetPayload(), Username: "echo"}, nil
}

func TestUnary(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		l.unary = echo
		reply, err := l.UnaryCall(t.Context(), &testv1.SimpleRequest{Payload: payload("hello")})
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(&testv1.SimpleResponse{Payload: payload("hello"), Username: "echo"}, reply, protocmp.Transform()))
	})
}

func TestReplyReplacesWhatWasThere(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		l.unary = echo
		reply := &testv1.SimpleResponse{OauthScope: "stale", Hostname: "stale"}
		err := l.conn.Invoke(t.Context(), testv1.TestService_UnaryCall_FullMethodName, &testv1.SimpleRequest{}, reply)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(&testv1.SimpleResponse{Username: "echo"}, reply, protocmp.Transform()))
	})
}

func TestNoReplyIsAnEmptyOne(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		l.unary = func(context.Context, *testv1.SimpleRequest) (*testv1.SimpleResponse, error) { return nil, nil }
		reply, err := l.UnaryCall(t.Context(), &testv1.SimpleRequest{})
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(&testv1.SimpleResponse{}, reply, protocmp.Transform()))
	})
}

func TestErrorArrivesWhole(t *testing.T) {
	sentinel := errs.New(errs.Aborted, "NOT_LEADER", "not the leader")
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		l.unary = func(context.Context, *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			err := sentinel.With("leader", "n2").WithRetryAfter(time.Second).Because(errors.New("secret"))
			return nil, fmt.Errorf("append to secret: %w", err)
		}
		_, err := l.UnaryCall(t.Context(), &testv1.SimpleRequest{})
		require.ErrorIs(t, err, sentinel)
		e, ok := errors.AsType[*errs.Error](err)
		require.True(t, ok)
		require.Equal(t, "n2", e.Metadata("leader"))
		after, _ := errs.RetryAfter(err)
		require.Equal(t, time.Second, after)
		require.NotContains(t, err.Error(), "secret")
		require.Equal(t, codes.Aborted, status.Code(err))
	})
}

func TestUnknownErrorLeavesAsAnID(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		l.unary = func(context.Context, *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			return nil, errors.New("open /var/secret: denied")
		}
		_, err := l.UnaryCall(t.Context(), &testv1.SimpleRequest{})
		requireMasked(t, l, err, "open /var/secret: denied")
	})
}

func TestPanicIsAnErrorOfOneCall(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		l.unary = func(context.Context, *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			panic("index out of secret range")
		}
		_, err := l.UnaryCall(t.Context(), &testv1.SimpleRequest{})
		requireMasked(t, l, err, "index out of secret range")
		require.Contains(t, l.log.String(), "unary_test.go", "the log has the stack")

		l.unary = echo
		_, err = l.UnaryCall(t.Context(), &testv1.SimpleRequest{})
		require.NoError(t, err)
	})
}

// requireMasked holds that err says nothing and the log says all.
func requireMasked(t *testing.T, l link, err error, logged string) {
	t.Helper()
	require.Equal(t, codes.Internal, status.Code(err))
	require.NotContains(t, err.Error(), "secret")
	e, ok := errors.AsType[*errs.Error](err)
	require.True(t, ok)
	id := e.Metadata(errs.MetadataErrorID)
	require.Equal(t, "internal error (id "+id+")", err.Error())
	require.Contains(t, l.log.String(), logged)
	require.Contains(t, l.log.String(), "method=/grpc.testing.TestService/")
}

func TestMetadataPassesAndValuesDoNot(t *testing.T) {
	type secretKey struct{}
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		var seen metadata.MD
		var value any
		l.unary = func(ctx context.Context, req *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			seen, _ = metadata.FromIncomingContext(ctx)
			value = ctx.Value(secretKey{})
			if _, ok := metadata.FromOutgoingContext(ctx); ok {
				return nil, errors.New("outgoing metadata of the caller is visible")
			}
			return echo(ctx, req)
		}
		ctx := context.WithValue(t.Context(), secretKey{}, "secret")
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("from", "the caller's caller"))
		ctx = metadata.AppendToOutgoingContext(ctx, "Principal", "alice", "principal", "bob", "raw-bin", "\x00\xff")
		_, err := l.UnaryCall(ctx, &testv1.SimpleRequest{})
		require.NoError(t, err)
		require.Equal(t, []string{"alice", "bob"}, seen.Get("principal"))
		require.Equal(t, []string{"\x00\xff"}, seen.Get("raw-bin"))
		require.Empty(t, seen.Get("from"))
		require.Nil(t, value)
	})
}

func TestHandlerWithoutMetadataFindsSomeThatIsEmpty(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		l.unary = func(ctx context.Context, req *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			if _, ok := metadata.FromIncomingContext(ctx); !ok {
				return nil, errors.New("no metadata")
			}
			if p, ok := peer.FromContext(ctx); !ok || p.Addr.String() == "" {
				return nil, errors.New("no peer")
			}
			if name, ok := grpc.Method(ctx); !ok || name != testv1.TestService_UnaryCall_FullMethodName {
				return nil, errors.New("no method")
			}
			return echo(ctx, req)
		}
		_, err := l.UnaryCall(t.Context(), &testv1.SimpleRequest{})
		require.NoError(t, err)
	})
}

func TestHeaderAndTrailerReturn(t *testing.T) {
	for name, fail := range map[string]error{"success": nil, "failure": errs.New(errs.NotFound, "X", "x")} {
		t.Run(name, func(t *testing.T) {
			onEach(t, rpc.Options{}, func(t *testing.T, l link) {
				l.unary = func(ctx context.Context, _ *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
					require.NoError(t, grpc.SetHeader(ctx, metadata.Pairs("h", "1")))
					require.NoError(t, grpc.SendHeader(ctx, metadata.Pairs("h", "2")))
					require.Error(t, grpc.SendHeader(ctx, metadata.Pairs("h", "3")))
					require.Error(t, grpc.SetHeader(ctx, metadata.Pairs("h", "4")))
					require.NoError(t, grpc.SetTrailer(ctx, metadata.Pairs("t", "1")))
					require.NoError(t, grpc.SetTrailer(ctx, metadata.Pairs("t", "2")))
					return &testv1.SimpleResponse{}, fail
				}
				var header, trailer metadata.MD
				var other peer.Peer
				var finished []error
				_, err := l.UnaryCall(t.Context(), &testv1.SimpleRequest{}, grpc.Header(&header), grpc.Trailer(&trailer),
					grpc.Peer(&other), grpc.OnFinish(func(err error) { finished = append(finished, err) }))
				require.Equal(t, fail == nil, err == nil)
				require.Equal(t, []string{"1", "2"}, header.Get("h"))
				require.Equal(t, []string{"1", "2"}, trailer.Get("t"))
				require.NotEmpty(t, other.Addr.String())
				require.Len(t, finished, 1)
				require.Equal(t, fail == nil, finished[0] == nil)
			})
		})
	}
}

func TestDeadlinePasses(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		var seen time.Time
		l.unary = func(ctx context.Context, req *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			seen, _ = ctx.Deadline()
			return echo(ctx, req)
		}
		// Over the wire it is what is left of the time, so it comes later by its way there.
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		deadline, _ := ctx.Deadline()
		_, err := l.UnaryCall(ctx, &testv1.SimpleRequest{})
		require.NoError(t, err)
		require.WithinDuration(t, deadline, seen, time.Hour)

		l.unary = func(ctx context.Context, _ *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = l.UnaryCall(ctx, &testv1.SimpleRequest{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	})
}

func TestCallAfterTheEndDoesNothing(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		l.unary = func(context.Context, *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			t.Error("called")
			return nil, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := l.UnaryCall(ctx, &testv1.SimpleRequest{})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, codes.Canceled, status.Code(err))
	})
}

func TestCancelReachesTheHandler(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		l.unary = func(ctx context.Context, _ *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			cancel()
			// A context derived from that of the call ends with it.
			derived, stop := context.WithTimeout(ctx, time.Hour)
			defer stop()
			<-derived.Done()
			ended <- ctx.Err()
			return nil, errors.New("whatever the handler makes of it")
		}
		_, err := l.UnaryCall(ctx, &testv1.SimpleRequest{})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

func TestContextEndsWithTheHandler(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		for name, early := range map[string]bool{"waited for before": true, "waited for after": false} {
			kept := make(chan context.Context, 1)
			l.unary = func(ctx context.Context, req *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
				if early {
					require.NotNil(t, ctx.Done())
				}
				require.NoError(t, ctx.Err())
				kept <- ctx
				return echo(ctx, req)
			}
			_, err := l.UnaryCall(t.Context(), &testv1.SimpleRequest{})
			require.NoError(t, err, name)
			ctx := <-kept
			<-ctx.Done()
			require.ErrorIs(t, ctx.Err(), context.Canceled, name)
		}
	})
}

func TestUnknownMethods(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		for _, name := range []string{"/grpc.testing.TestService/Nothing", "/nothing/UnaryCall"} {
			err := l.conn.Invoke(t.Context(), name, &testv1.SimpleRequest{}, &testv1.SimpleResponse{})
			require.Equal(t, codes.Unimplemented, status.Code(err), name)
			require.Equal(t, errs.Unimplemented, errs.KindOf(err), name)
		}
		_, err := l.UnimplementedCall(t.Context(), &testv1.Empty{})
		require.Equal(t, codes.Unimplemented, status.Code(err))
	})
}

func TestInterceptorsStandWithinTheGuardInOrder(t *testing.T) {
	var order []string
	note := func(name string) grpc.UnaryServerInterceptor {
		return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			order = append(order, name+" "+string(req.(*testv1.SimpleRequest).GetPayload().GetBody()))
			if name == "second" && req.(*testv1.SimpleRequest).GetFillUsername() {
				panic("secret")
			}
			return handler(ctx, req)
		}
	}
	o := rpc.Options{Unary: []grpc.UnaryServerInterceptor{note("first"), note("second")}}
	onEach(t, o, func(t *testing.T, l link) {
		order = nil
		l.unary = echo
		_, err := l.UnaryCall(t.Context(), &testv1.SimpleRequest{Payload: payload("x")})
		require.NoError(t, err)
		require.Equal(t, []string{"first x", "second x"}, order)

		_, err = l.UnaryCall(t.Context(), &testv1.SimpleRequest{FillUsername: true})
		requireMasked(t, l, err, "secret")
	})
}

func TestStopLetsCallsFinish(t *testing.T) {
	onEach(t, rpc.Options{Grace: time.Minute}, func(t *testing.T, l link) {
		entered, release := make(chan struct{}), make(chan struct{})
		l.unary = func(ctx context.Context, req *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			close(entered)
			<-release
			return echo(ctx, req)
		}
		result := make(chan error, 1)
		go func() {
			_, err := l.UnaryCall(context.Background(), &testv1.SimpleRequest{})
			result <- err
		}()
		<-entered
		stopped := make(chan struct{})
		go func() { l.stop(); close(stopped) }()

		require.Eventually(t, func() bool {
			_, err := l.EmptyCall(t.Context(), &testv1.Empty{})
			return errs.KindOf(err) == errs.Unavailable
		}, time.Minute, time.Millisecond, "new calls are refused")
		select {
		case <-stopped:
			require.Fail(t, "stopped while a call was in flight")
		default:
		}
		close(release)
		require.NoError(t, <-result)
		<-stopped
	})
}

func TestStopCutsCallsAfterTheGracePeriod(t *testing.T) {
	onEach(t, rpc.Options{Grace: time.Millisecond}, func(t *testing.T, l link) {
		entered := make(chan struct{})
		l.unary = func(ctx context.Context, _ *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			close(entered)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		result := make(chan error, 1)
		go func() {
			_, err := l.UnaryCall(context.Background(), &testv1.SimpleRequest{})
			result <- err
		}()
		<-entered
		l.stop()
		require.Equal(t, errs.Unavailable, errs.KindOf(<-result))
	})
}
