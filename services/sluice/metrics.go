package sluice

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluiceio/sluice/services/kit/obs"
	"github.com/sluiceio/sluice/services/sluice/internal/stack"
)

const (
	// What a scrape may take to ask and to be answered.
	metricsHeaderTimeout = 5 * time.Second
	metricsWriteTimeout  = time.Minute
	// metricsGrace is how long a stop waits for a scrape.
	metricsGrace = time.Second
)

// openMetrics listens where the process shows its own metrics. A gateway shows them
// at its door too, to administrators; other services have no door.
func (n *Node) openMetrics(metrics prometheus.Gatherer) error {
	if n.cfg.BindMetrics == "" {
		return nil
	}
	listener, err := net.Listen("tcp", n.cfg.BindMetrics)
	if err != nil {
		return fmt.Errorf("--bind-metrics: %w", err)
	}
	n.closer.Push("metrics listener", func() error {
		// The server has closed it already, unless it never served.
		_ = listener.Close()
		return nil
	})
	n.metrics = listener.Addr().String()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", obs.MetricsHandler(metrics))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !n.ready.Load() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: metricsHeaderTimeout, WriteTimeout: metricsWriteTimeout}
	n.add(stack.Part{Name: "metrics", Run: func(ctx context.Context) error {
		stopped := make(chan error, 1)
		stop := context.AfterFunc(ctx, func() {
			grace, cancel := context.WithTimeout(context.Background(), metricsGrace)
			defer cancel()
			if server.Shutdown(grace) != nil {
				stopped <- server.Close()
				return
			}
			stopped <- nil
		})
		err := server.Serve(listener)
		if stop() || !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return <-stopped
	}})
	return nil
}

// Metrics is the address where the process shows its own metrics, empty for none.
func (n *Node) Metrics() string { return n.metrics }
