package conformance

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
)

// server is what is tested.
type server struct {
	http, binary, token string
}

// onEach runs a test on the server that the environment names, or else on ours of
// each kind.
func onEach(t *testing.T, test func(t *testing.T, s server)) {
	if address := os.Getenv("CONFORMANCE_BINARY"); address != "" {
		test(t, server{os.Getenv("CONFORMANCE_HTTP"), address, os.Getenv("CONFORMANCE_TOKEN")})
		return
	}
	o := cluster.Options{Binary: true, Flags: []string{"--auth", "required"}}
	cluster.OnEach(t, o, func(t *testing.T, ours cluster.Server) {
		test(t, server{ours.HTTP(), ours.Binary(), cluster.AdminKey(t, ours)})
	})
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
