package grpcdoor

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/services/gateway/internal/budget"
)

// metrics are the door's series.
type metrics struct {
	refused, cut *prometheus.CounterVec
}

func newMetrics(d *Door, reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_grpc_calls", Help: "Calls under way over the gRPC door.",
	}, func() float64 {
		return float64(d.under.Load())
	})
	for name, b := range map[string]*budget.Budget{"requests": d.requests, "answers": d.answers} {
		f.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "sluice_grpc_budget_bytes",
			Help:        "Memory that calls and their answers have taken of --max-inflight-body-bytes.",
			ConstLabels: prometheus.Labels{"budget": name},
		}, func() float64 { return float64(b.Taken()) })
	}
	return &metrics{
		refused: f.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_grpc_calls_refused_total", Help: "Calls of which no message was read, by the code of their answer.",
		}, []string{"code"}),
		cut: f.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_grpc_calls_cut_total", Help: "Calls that were cut off since their client stopped to send or to take, by reason: slow, or memory that others waited for.",
		}, []string{"reason"}),
	}
}

func (m *metrics) refuse(err error) { m.refused.WithLabelValues(status.Code(err).String()).Inc() }
