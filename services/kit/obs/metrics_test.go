package obs_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/obs"
)

func TestRegistryIsItsOwn(t *testing.T) {
	a, b := obs.NewRegistry(), obs.NewRegistry()
	for _, registry := range []*prometheus.Registry{a, b} {
		registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_test_total", Help: "A counter."}))
	}
	response := httptest.NewRecorder()
	obs.MetricsHandler(a).ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, response.Code)
	for _, family := range []string{"sluice_test_total 0", "go_goroutines", "process_resident_memory_bytes"} {
		require.Contains(t, response.Body.String(), family)
	}
}
