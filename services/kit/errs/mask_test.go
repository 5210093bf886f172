package errs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/services/kit/errs"
)

// idHandler writes the error id of the context, as kit/obs does.
type idHandler struct{ slog.Handler }

func (h idHandler) Handle(ctx context.Context, r slog.Record) error {
	r.AddAttrs(slog.String("error_id", errs.ID(ctx)))
	return h.Handler.Handle(ctx, r)
}

const outOfTime = "there was no answer in time; what was asked for may or may not have been done"

func TestMask(t *testing.T) {
	secret := errors.New("open /secret/path: permission denied")
	cases := map[string]struct {
		err     error
		code    codes.Code
		message string // empty: masked
	}{
		"of a known kind":      {errs.New(errs.NotFound, "TOPIC_NOT_FOUND", "no such topic").Because(secret), codes.NotFound, "no such topic"},
		"wrapped":              {fmt.Errorf("handle: %w", errs.New(errs.Aborted, "FENCED", "fenced")), codes.Aborted, "fenced"},
		"corruption":           {errs.New(errs.DataLoss, "DAMAGED", "partition 3 is damaged").Because(secret), codes.DataLoss, "partition 3 is damaged"},
		"unknown":              {secret, codes.Internal, ""},
		"internal":             {errs.New(errs.Internal, "WHATEVER", "%v", secret), codes.Internal, ""},
		"canceled":             {fmt.Errorf("wait: %w", context.Canceled), codes.Canceled, "canceled"},
		"deadline":             {context.DeadlineExceeded, codes.DeadlineExceeded, outOfTime},
		"somebody's deadline":  {fmt.Errorf("call: %w", status.Error(codes.DeadlineExceeded, "context deadline exceeded")), codes.DeadlineExceeded, outOfTime},
		"health's own":         {status.Error(codes.NotFound, "unknown service"), codes.NotFound, "unknown service"},
		"transport's":          {status.Error(codes.Unavailable, "dial tcp /secret/path:1: refused"), codes.Unavailable, "unavailable"},
		"somebody's Unknown":   {status.Error(codes.Unknown, secret.Error()), codes.Internal, ""},
		"somebody's Internal":  {status.Error(codes.Internal, secret.Error()), codes.Internal, ""},
		"somebody's data loss": {status.Error(codes.DataLoss, secret.Error()), codes.Internal, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			logger := slog.New(idHandler{slog.NewTextHandler(&log, nil)})
			masked := errs.Mask(t.Context(), logger, c.err)
			st := status.Convert(masked)
			require.Equal(t, c.code, st.Code())
			require.NotContains(t, st.String(), "secret")
			if c.message != "" {
				require.Equal(t, c.message, st.Message())
				require.Empty(t, log.String())
				return
			}
			e, ok := errs.From(masked)
			require.True(t, ok)
			require.Equal(t, errs.ReasonInternal, e.Reason())
			id := e.Metadata(errs.MetadataErrorID)
			require.NotEmpty(t, id)
			require.Equal(t, "internal error (id "+id+")", st.Message())
			require.Contains(t, log.String(), "error_id="+id)
			require.Contains(t, log.String(), "/secret/path")
		})
	}
}

func TestOneIDLeadsThroughAllProcesses(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	storage := errs.Mask(t.Context(), logger, io.ErrUnexpectedEOF)
	log.Reset()
	gateway := errs.Mask(t.Context(), logger, fmt.Errorf("append: %w", errs.FromStatus(overTheWire(storage))))
	require.Equal(t, status.Convert(storage).Message(), status.Convert(gateway).Message())
	require.Empty(t, log.String())
}

func TestMaskOfNothingIsNothing(t *testing.T) {
	require.NoError(t, errs.Mask(t.Context(), slog.New(slog.DiscardHandler), nil))
}
