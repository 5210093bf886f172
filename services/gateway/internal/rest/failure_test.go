package rest

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/services/gateway/internal/apijson"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// Every gRPC code has a status; what has none is a fault of ours.
func TestEveryCodeHasAStatus(t *testing.T) {
	want := map[codes.Code]int{
		codes.Canceled: 499, codes.Unknown: 500, codes.InvalidArgument: 400, codes.DeadlineExceeded: 503,
		codes.NotFound: 404, codes.AlreadyExists: 409, codes.PermissionDenied: 403, codes.ResourceExhausted: 429,
		codes.FailedPrecondition: 400, codes.Aborted: 409, codes.OutOfRange: 400, codes.Unimplemented: 501,
		codes.Internal: 500, codes.Unavailable: 503, codes.DataLoss: 500, codes.Unauthenticated: 401,
	}
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		for _, err := range []error{errs.New(errs.Kind(code), "SOME_REASON", "what happened"), status.Error(code, "what happened")} {
			answer := httptest.NewRecorder()
			writeFailure(t.Context(), slog.New(slog.DiscardHandler), answer, err)
			require.Equal(t, want[code], answer.Code, "%v of %T", code, err)
			if answer.Code == http.StatusInternalServerError && code != codes.DataLoss && code != codes.Unknown {
				require.NotContains(t, answer.Body.String(), "what happened", "%v", code)
			}
		}
	}
}

func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		err    error
		status int
		body   string
		header [2]string
	}{
		{tooLargeError(7), 413, `{"error":"the body is larger than the limit of 7 bytes"}`, [2]string{"Connection", "close"}},
		{&apijson.Error{Path: "a", Reason: "must be b"}, 400, `{"error":"a must be b"}`, [2]string{}},
		{errs.New(errs.ResourceExhausted, "OVER_QUOTA", "slow down").WithRetryAfter(1200 * time.Millisecond), 429, `{"error":"slow down"}`, [2]string{"Retry-After", "2"}},
		{errs.New(errs.Unauthenticated, "NO_KEY", "no key"), 401, `{"error":"no key"}`, [2]string{"WWW-Authenticate", "Bearer"}},
		{errs.New(errs.NotFound, "X", "%s", "\"\x00\xff"), 404, `{"error":"\"\u0000` + "\ufffd" + `"}`, [2]string{}},
	} {
		answer := httptest.NewRecorder()
		writeFailure(t.Context(), slog.New(slog.DiscardHandler), answer, tc.err)
		require.Equal(t, tc.status, answer.Code)
		require.Equal(t, tc.body, answer.Body.String())
		require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
		if tc.header[0] != "" {
			require.Equal(t, tc.header[1], answer.Header().Get(tc.header[0]))
		}
	}
	answer := httptest.NewRecorder()
	writeFailure(t.Context(), slog.New(slog.DiscardHandler), answer, errors.New("on fire"))
	require.Equal(t, 500, answer.Code)
	require.NotContains(t, answer.Body.String(), "fire")
}
