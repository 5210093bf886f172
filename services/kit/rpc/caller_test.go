package rpc_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	testv1 "google.golang.org/grpc/interop/grpc_testing"

	"github.com/sluiceio/sluice/services/kit/rpc"
	"github.com/sluiceio/sluice/services/kit/rpc/caller"
)

// A handler that waits for its caller alone is told when he gives up, over the wire
// as in process.
func TestCallerGivesUp(t *testing.T) {
	onEach(t, rpc.Options{}, func(t *testing.T, l link) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		l.unary = func(ctx context.Context, _ *testv1.SimpleRequest) (*testv1.SimpleResponse, error) {
			cancel()
			<-caller.Done(ctx)
			ended <- ctx.Err()
			return nil, ctx.Err()
		}
		_, err := l.UnaryCall(ctx, &testv1.SimpleRequest{})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}
