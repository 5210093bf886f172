package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/sluiceio/sluice/services/gateway/internal/apijson"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// statuses are the HTTP statuses of kinds of errors. Kinds that are missing are
// faults of ours.
var statuses = map[errs.Kind]int{
	errs.InvalidArgument:    http.StatusBadRequest,
	errs.FailedPrecondition: http.StatusBadRequest,
	errs.OutOfRange:         http.StatusBadRequest,
	errs.Unauthenticated:    http.StatusUnauthorized,
	errs.PermissionDenied:   http.StatusForbidden,
	errs.NotFound:           http.StatusNotFound,
	errs.AlreadyExists:      http.StatusConflict,
	errs.Aborted:            http.StatusConflict,
	errs.ResourceExhausted:  http.StatusTooManyRequests,
	errs.Unimplemented:      http.StatusNotImplemented,
	errs.Unavailable:        http.StatusServiceUnavailable,
	errs.DeadlineExceeded:   http.StatusServiceUnavailable,
	errs.Canceled:           statusClientGone,
}

// statusClientGone is what proxies log when nobody waits for the answer.
const statusClientGone = 499

// A statusError is a failure that only HTTP knows.
type statusError struct {
	status  int
	message string
}

func (e statusError) Error() string { return e.message }

func tooLargeError(limit int64) error {
	return statusError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than the limit of %d bytes", limit)}
}

// writeFailure answers a request that failed. What is not meant for callers goes
// to the log, under an id.
func writeFailure(ctx context.Context, logger *slog.Logger, w http.ResponseWriter, err error) {
	if e, ok := errors.AsType[statusError](err); ok {
		if e.status == http.StatusRequestEntityTooLarge {
			// The rest of the body is not worth reading.
			w.Header().Set("Connection", "close")
		}
		writeError(w, e.status, e.message)
		return
	}
	if e, ok := errors.AsType[*apijson.Error](err); ok {
		writeError(w, http.StatusBadRequest, e.Error())
		return
	}
	masked, _ := errs.From(errs.Mask(ctx, logger, err))
	if after, ok := errs.RetryAfter(err); ok {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	status, ok := statuses[masked.Kind()]
	if !ok {
		status = http.StatusInternalServerError
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeError(w, status, masked.Message())
}

// writeError answers with {"error"}, as every failure is.
func writeError(w http.ResponseWriter, status int, message string) {
	out := append([]byte(nil), `{"error":`...)
	out = apijson.AppendString(out, message)
	out = append(out, '}')
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(out)))
	w.WriteHeader(status)
	// Whoever asked is gone when this fails.
	_, _ = w.Write(out)
}

func writeNotAllowed(w http.ResponseWriter, method string, allowed []string) {
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	writeError(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s is not allowed here, only %s", method, strings.Join(allowed, ", ")))
}
