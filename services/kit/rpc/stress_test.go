package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	testv1 "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/rpc"
)

// TestManyCallsEndTogether has calls succeed, be cancelled and run out of time
// side by side while the server stops: each ends in one of the ways it may, and
// nothing stays behind (TestMain looks for goroutines).
func TestManyCallsEndTogether(t *testing.T) {
	onEach(t, rpc.Options{Grace: time.Millisecond}, func(t *testing.T, l link) {
		l.unary = func(ctx context.Context, req *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			if err := grpc.SetTrailer(ctx, metadata.Pairs("t", "1")); err != nil {
				return nil, err
			}
			if req.GetFillUsername() {
				waiting, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				<-waiting.Done()
				return nil, ctx.Err()
			}
			return echo(ctx, req)
		}
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
		unary := func(ctx context.Context, wait bool) error {
			var trailer metadata.MD
			_, err := l.UnaryCall(ctx, &testv1.SimpleRequest{FillUsername: wait, Payload: payload("x")}, grpc.Trailer(&trailer))
			if err == nil && len(trailer.Get("t")) != 1 {
				return errors.New("no trailer")
			}
			return err
		}
		bidi := func(ctx context.Context, messages int) error {
			stream, err := l.FullDuplexCall(ctx)
			if err != nil {
				return err
			}
			for range messages {
				// The end of the stream comes with Recv.
				_ = stream.Send(&testv1.StreamingOutputCallRequest{Payload: payload("x")})
				if _, err := stream.Recv(); err != nil {
					return err
				}
			}
			if err := stream.CloseSend(); err != nil {
				return err
			}
			if _, err = stream.Recv(); !errors.Is(err, io.EOF) {
				return err
			}
			return nil
		}

		var callers sync.WaitGroup
		for caller := range 8 {
			callers.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(caller)))
				for i := range 40 {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(3000))*time.Microsecond)
					var err error
					if random.IntN(2) == 0 {
						err = unary(ctx, random.IntN(2) == 0)
					} else {
						err = bidi(ctx, random.IntN(20))
					}
					cancel()
					if err := mayHappen(err); err != nil {
						t.Errorf("caller %d, call %d: %v", caller, i, err)
						return
					}
					if caller == 0 && i == 30 {
						callers.Go(l.stop)
					}
				}
			})
		}
		callers.Wait()
	})
}

func mayHappen(err error) error {
	if err == nil {
		return nil
	}
	switch errs.KindOf(err) {
	case errs.DeadlineExceeded, errs.Canceled, errs.Unavailable:
		return nil
	}
	return fmt.Errorf("unexpected end: %w", err)
}
