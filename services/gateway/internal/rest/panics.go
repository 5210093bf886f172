package rest

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/sluiceio/sluice/services/kit/errs"
)

// recoverPanics answers a request whose handler panicked with a 500; the process
// goes on.
func recoverPanics(logger *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered := &outermostWriter{ResponseWriter: w}
		defer func() {
			value := recover()
			if value == nil {
				return
			}
			if err, ok := value.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(value)
			}
			err := fmt.Errorf("panic in the handler of %s %s: %v\n%s", r.Method, r.URL.Path, value, debug.Stack())
			if answered.wrote {
				// Too late for a 500: cut the answer off.
				_ = errs.Mask(r.Context(), logger, err)
				panic(http.ErrAbortHandler)
			}
			writeFailure(r.Context(), logger, answered, err)
		}()
		next.ServeHTTP(answered, r)
	})
}

// writeTimeout is how long a client may take to read an answer.
const writeTimeout = time.Minute

// outermostWriter knows whether an answer has begun, and bounds how long it
// takes.
type outermostWriter struct {
	http.ResponseWriter
	wrote bool
}

// Unwrap is for http.ResponseController.
func (w *outermostWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader sends the status.
func (w *outermostWriter) WriteHeader(status int) {
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

// Write sends bytes of the answer.
func (w *outermostWriter) Write(b []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(b)
}

func (w *outermostWriter) begin() {
	if !w.wrote {
		w.wrote = true
		// The deadline of the last answer on the connection would still stand.
		// Test recorders know none.
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
	}
}
