package shard

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	appends  *prometheus.CounterVec
	records  prometheus.Counter
	duration prometheus.Histogram
	loads    *prometheus.CounterVec
	loading  prometheus.Histogram
	replayed prometheus.Counter
	givenUp  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, owned func() float64) *metrics {
	f := promauto.With(reg)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_coordinator_shards_owned",
		Help: "Shards that this coordinator owns.",
	}, owned)
	return &metrics{
		appends: f.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_coordinator_shard_appends_total",
			Help: "Appends to the logs of shards, by outcome.",
		}, []string{"outcome"}),
		records: f.NewCounter(prometheus.CounterOpts{
			Name: "sluice_coordinator_shard_records_total",
			Help: "Records committed to the logs of shards.",
		}),
		duration: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "sluice_coordinator_shard_append_seconds",
			Help:    "Time until an append to a shard's log was committed, waits included.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		loads: f.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_coordinator_shard_loads_total",
			Help: "Loads of shards, by outcome.",
		}, []string{"outcome"}),
		loading: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "sluice_coordinator_shard_load_seconds",
			Help:    "Time to fence and read a shard's log.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}),
		replayed: f.NewCounter(prometheus.CounterOpts{
			Name: "sluice_coordinator_shard_replayed_records_total",
			Help: "Records read when shards were loaded.",
		}),
		givenUp: f.NewCounter(prometheus.CounterOpts{
			Name: "sluice_coordinator_shards_given_up_total",
			Help: "Shards given up because of a fence or an unknown outcome.",
		}),
	}
}

func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}

func (m *metrics) appended(records int, took time.Duration, err error) {
	m.appends.WithLabelValues(outcome(err)).Inc()
	if err == nil {
		m.records.Add(float64(records))
		m.duration.Observe(took.Seconds())
	}
}

func (m *metrics) loaded(records int, took time.Duration, err error) {
	m.loads.WithLabelValues(outcome(err)).Inc()
	if err == nil {
		m.loading.Observe(took.Seconds())
		m.replayed.Add(float64(records))
	}
}
