package schemadoor

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func TestBadBodies(t *testing.T) {
	for body, want := range map[string]string{
		``:                                 "the body is empty, expected a JSON object",
		`{"schema":`:                       "the body could not be read: it ended early or took too long",
		`{"schema":}`:                      "malformed JSON at byte 11: invalid character '}' looking for beginning of value",
		`[]`:                               "the body must be an object, got a list",
		`"x"`:                              "the body must be an object, got a string",
		`{"schema":5}`:                     "schema must be a string, got a number",
		`{"schema":{}}`:                    "schema must be a string, got an object",
		`{"references":"x"}`:               "references must be a list, got a string",
		`{"references":[true]}`:            "references must be an object, got a boolean",
		`{"references":[{"version":"1"}]}`: "references.version must be an integer of 32 bits, got a string",
		`{"references":[{"version":4294967296}]}`:    "references.version must be an integer of 32 bits, got a number 4294967296",
		`{"schema":"` + strings.Repeat("x", maxBody): "the body is larger than 3145728 bytes",
	} {
		var got request
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		require.EqualError(t, got.read(httptest.NewRecorder(), r, time.Minute), want, "%.40s", body)
	}
}

// A client that begins a body and does not go on is given up.
func TestASlowBodyIsGivenUp(t *testing.T) {
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got request
		ended <- got.read(w, r, 10*time.Millisecond)
	}))
	defer server.Close()
	body, feed := io.Pipe()
	go func() { _, _ = feed.Write([]byte(`{"schema":`)) }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
	require.NoError(t, err)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if resp, err := server.Client().Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	require.EqualError(t, <-ended, "the body could not be read: it ended early or took too long")
	require.NoError(t, feed.Close())
	<-answered
}

// Slow clients that hold all the room there is do not keep others waiting for ever.
func TestRoomForBodies(t *testing.T) {
	b := make(bodies, 1)
	require.NoError(t, b.enter(t.Context()))
	require.EqualError(t, b.enter(t.Context()), "too many requests are under way")
	b.leave()
	require.NoError(t, b.enter(t.Context()))
}
