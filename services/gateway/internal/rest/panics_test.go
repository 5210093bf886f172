package rest

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPanicIsA500AndTheLogSaysWhy(t *testing.T) {
	var log bytes.Buffer
	handler := recoverPanics(slog.New(slog.NewTextHandler(&log, nil)), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/boom" {
			panic("secret detail")
		}
	}))
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/boom", nil))
	require.Equal(t, http.StatusInternalServerError, answer.Code)
	require.Regexp(t, `^{"error":"internal error \(id [0-9a-f-]{36}\)"}$`, answer.Body.String())
	require.Contains(t, log.String(), "secret detail")
	require.Contains(t, log.String(), "panics_test.go", "the stack")

	answer = httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
	require.Equal(t, http.StatusOK, answer.Code)
}

// An answer that has begun cannot become a 500: it is cut off, so that nobody
// takes a part for the whole.
func TestAPanicInTheMiddleOfAnAnswerCutsItOff(t *testing.T) {
	server := httptest.NewServer(recoverPanics(slog.New(slog.DiscardHandler), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, err := w.Write([]byte("half"))
		panic(err)
	})))
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	require.NoError(t, err)
	resp, err := server.Client().Do(req)
	if err == nil {
		_, err = new(bytes.Buffer).ReadFrom(resp.Body)
		require.NoError(t, resp.Body.Close())
	}
	require.Error(t, err)
}
