package conformance

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/loopback"
)

// server is what is tested.
type server struct {
	http, binary, token string
}

// target returns the server that the environment names, or one of ours.
func target(t *testing.T) server {
	t.Helper()
	s := server{os.Getenv("CONFORMANCE_HTTP"), os.Getenv("CONFORMANCE_BINARY"), os.Getenv("CONFORMANCE_TOKEN")}
	if s.binary == "" {
		s.binary = loopback.FreeAddress(t)
		ours := cluster.NewInProcess(t, cluster.Options{Flags: []string{"--bind-binary", s.binary, "--auth", "required"}})
		cluster.Start(t, ours)
		s.http = ours.HTTP()
		secret, err := os.ReadFile(filepath.Join(ours.DataDir(), "bootstrap.key"))
		require.NoError(t, err)
		s.token = strings.TrimSpace(string(secret))
	}
	return s
}

// topic makes a topic with a name of its own.
func (s server) topic(t *testing.T, partitions int) string {
	t.Helper()
	name := fmt.Sprintf("conformance-%08x", rand.Uint32())
	s.call(t, "POST", "/topics", fmt.Sprintf(`{"name":%q,"partitions":%d}`, name, partitions), 201)
	return name
}

// call makes an HTTP request and returns the body of its answer.
func (s server) call(t *testing.T, method, path, body string, status int) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.http+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, status, resp.StatusCode, string(got))
	return string(got)
}
