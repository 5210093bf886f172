package errs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/services/kit/errs"
)

var errTopicNotFound = errs.New(errs.NotFound, "TOPIC_NOT_FOUND", "topic does not exist")

// overTheWire does what a connection does to an error.
func overTheWire(err error) error {
	return status.FromProto(status.Convert(err).Proto()).Err()
}

func TestErrorIsTheSameOnBothSidesOfAConnection(t *testing.T) {
	sent := errs.New(errs.NotFound, "TOPIC_NOT_FOUND", "topic %q does not exist", "orders").
		With("topic", "orders").With("node", "n1").WithRetryAfter(1500 * time.Millisecond)

	st := status.Convert(sent)
	require.Equal(t, codes.NotFound, st.Code())
	require.Equal(t, `topic "orders" does not exist`, st.Message())
	info, ok := st.Details()[0].(*errdetails.ErrorInfo)
	require.True(t, ok)
	require.Equal(t, "sluice", info.GetDomain())
	require.Equal(t, "TOPIC_NOT_FOUND", info.GetReason())

	raw := overTheWire(sent)
	for name, got := range map[string]error{
		"converted": errs.FromStatus(raw),
		"wrapped":   fmt.Errorf("ask the coordinator: %w", errs.FromStatus(raw)),
	} {
		require.ErrorIs(t, got, errTopicNotFound, name)
		e, ok := errors.AsType[*errs.Error](got)
		require.True(t, ok, name)
		require.Equal(t, errs.NotFound, e.Kind())
		require.Equal(t, "orders", e.Metadata("topic"))
		require.Equal(t, "n1", e.Metadata("node"))
	}
	for name, err := range map[string]error{"ours": sent, "status": raw, "wrapped status": fmt.Errorf("x: %w", raw)} {
		require.Equal(t, "TOPIC_NOT_FOUND", errs.Reason(err), name)
		require.Equal(t, errs.NotFound, errs.KindOf(err), name)
		after, ok := errs.RetryAfter(err)
		require.True(t, ok, name)
		require.Equal(t, 1500*time.Millisecond, after, name)
	}
}

func TestIsComparesKindAndReason(t *testing.T) {
	require.NotErrorIs(t, errs.New(errs.NotFound, "GROUP_NOT_FOUND", "x"), errTopicNotFound)
	require.NotErrorIs(t, errs.New(errs.Aborted, "TOPIC_NOT_FOUND", "x"), errTopicNotFound)
	require.ErrorIs(t, errTopicNotFound.WithMessage("topic %q is gone", "a"), errTopicNotFound)

	// Without a reason there is nothing to compare.
	a := errs.FromStatus(status.Error(codes.NotFound, "a"))
	b := errs.FromStatus(status.Error(codes.NotFound, "b"))
	require.NotErrorIs(t, a, b)
	require.ErrorIs(t, fmt.Errorf("call: %w", a), a)
}

func TestWithDoesNotChangeTheSentinel(t *testing.T) {
	first := errTopicNotFound.With("topic", "a")
	second := first.With("topic", "b")
	require.Empty(t, errTopicNotFound.Metadata("topic"))
	require.Equal(t, "a", first.Metadata("topic"))
	require.Equal(t, "b", second.Metadata("topic"))
}

func TestCauseStaysInTheProcess(t *testing.T) {
	err := errs.New(errs.Unavailable, "DISK_BUSY", "try again").Because(io.ErrShortWrite)
	require.ErrorIs(t, err, io.ErrShortWrite)
	require.EqualError(t, err, "try again: short write")
	require.NotContains(t, status.Convert(err).String(), "short write")
}

func TestContextErrorsSurviveTheWire(t *testing.T) {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		got := errs.FromStatus(overTheWire(status.FromContextError(end).Err()))
		require.ErrorIs(t, got, end)
		require.Equal(t, errs.KindOf(end), errs.KindOf(got))
	}
}

func TestForeignStatusGoesOutAsItCame(t *testing.T) {
	foreign, err := status.New(codes.NotFound, "unknown service").
		WithDetails(&errdetails.ErrorInfo{Domain: "example.com", Reason: "X"})
	require.NoError(t, err)
	got := errs.FromStatus(foreign.Err())
	require.Empty(t, errs.Reason(got))
	require.Equal(t, foreign.Proto().String(), status.Convert(got).Proto().String())
}

func TestFromStatusLeavesOtherErrorsAlone(t *testing.T) {
	require.NoError(t, errs.FromStatus(nil))
	require.Equal(t, io.EOF, errs.FromStatus(io.EOF))
	require.Equal(t, errs.Internal, errs.KindOf(io.EOF))
	require.Empty(t, errs.Reason(io.EOF))
}

func TestBytesThatAreNotTextDoNotCostTheReason(t *testing.T) {
	err := errs.New(errs.InvalidArgument, "BAD_NAME", "topic %s", "\xff").With("topic", "a\xfe")
	got := errs.FromStatus(overTheWire(err))
	require.Equal(t, "BAD_NAME", errs.Reason(got))
	require.EqualError(t, got, "topic \uFFFD")
}

func TestKindsAreTheCodesOfTheirNames(t *testing.T) {
	require.Equal(t, "NotFound", errs.NotFound.String())
	require.Equal(t, codes.DataLoss, codes.Code(errs.DataLoss))
}
