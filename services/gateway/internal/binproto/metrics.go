package binproto

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/sluiceio/sluice/services/gateway/internal/budget"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// metrics are the series of the door. The values of their labels are those that
// are listed in the code, whatever clients send.
type metrics struct {
	accepted        prometheus.Counter
	refused, closed *prometheus.CounterVec
	requests        *prometheus.CounterVec
	// What most requests come to, found already.
	fine           map[opcode]prometheus.Counter
	seconds        map[opcode]prometheus.Observer
	together       prometheus.Histogram
	received, sent prometheus.Counter
}

func newMetrics(d *Door, reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_binary_connections", Help: "Open connections, those in their handshake included.",
	}, d.connections)
	for name, b := range map[string]*budget.Budget{"requests": d.requests, "answers": d.answers} {
		f.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "sluice_binary_budget_bytes",
			Help:        "Memory that requests, and answers to reads, have taken of --max-inflight-body-bytes.",
			ConstLabels: prometheus.Labels{"budget": name},
		}, func() float64 { return float64(b.Taken()) })
	}
	m := &metrics{
		accepted: f.NewCounter(prometheus.CounterOpts{
			Name: "sluice_binary_connections_accepted_total", Help: "Connections whose handshake succeeded.",
		}),
		refused: f.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_binary_connections_refused_total", Help: "Connections that got no further than the handshake, by reason.",
		}, []string{"reason"}),
		closed: f.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_binary_connections_closed_total", Help: "Connections that ended after their handshake, by reason.",
		}, []string{"reason"}),
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_binary_requests_total", Help: "Requests that were answered, by what they asked for and OK or the kind of the error.",
		}, []string{"opcode", "outcome"}),
		fine:    make(map[opcode]prometheus.Counter),
		seconds: make(map[opcode]prometheus.Observer),
		together: f.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_binary_produce_group_requests", Help: "Produces that were written together.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 6),
		}),
		received: f.NewCounter(prometheus.CounterOpts{
			Name: "sluice_binary_received_bytes_total", Help: "Bytes received, without those of TLS.",
		}),
		sent: f.NewCounter(prometheus.CounterOpts{
			Name: "sluice_binary_sent_bytes_total", Help: "Bytes sent, without those of TLS.",
		}),
	}
	seconds := f.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sluice_binary_request_seconds", Help: "Time from the head of a request's frame to its answer.",
		Buckets: prometheus.ExponentialBuckets(50e-6, 2, 18),
	}, []string{"opcode"})
	for _, op := range []opcode{opProduce, opConsume, opPing} {
		m.fine[op] = m.requests.WithLabelValues(op.String(), outcomeOK)
		m.seconds[op] = seconds.WithLabelValues(op.String())
	}
	for _, r := range refusals {
		m.refused.WithLabelValues(string(r))
	}
	for _, r := range endings {
		m.closed.WithLabelValues(string(r))
	}
	return m
}

// outcomeOK is the outcome of a request without an error; others are the names
// of gRPC's codes.
const outcomeOK = "OK"

// answered counts a request that has its answer.
func (m *metrics) answered(r ticket, err error) {
	fine, known := m.fine[r.op]
	switch {
	case err != nil:
		m.requests.WithLabelValues(r.op.String(), errs.KindOf(err).String()).Inc()
	case known:
		fine.Inc()
	}
	if known {
		m.seconds[r.op].Observe(time.Since(r.began).Seconds())
	}
}

// An ending is why a connection ended after its handshake.
type ending string

const (
	endedByClient     ending = "client"
	endedIdle         ending = "idle"
	endedSlowSender   ending = "slow_sender"
	endedSlowReader   ending = "slow_reader"
	endedForMemory    ending = "memory"
	endedMalformed    ending = "malformed"
	endedUnauthorized ending = "unauthenticated"
	endedByStop       ending = "stop"
)

var endings = []ending{
	endedByClient, endedIdle, endedSlowSender, endedSlowReader, endedForMemory, endedMalformed, endedUnauthorized, endedByStop,
}

// A refused connection has one of these reasons.
type refusedFor string

const (
	refusedCrowd        refusedFor = "too_many_connections"
	refusedMagic        refusedFor = "bad_magic"
	refusedAuthFailed   refusedFor = "auth_failed"
	refusedAuthRequired refusedFor = "auth_required"
	// It broke, took too long, or spoke no TLS where it should.
	refusedBroken refusedFor = "broken_handshake"
	// Keys could not be checked.
	refusedUnavailable refusedFor = "unavailable"
)

var refusals = []refusedFor{refusedCrowd, refusedMagic, refusedAuthFailed, refusedAuthRequired, refusedBroken, refusedUnavailable}

// reason is why a connection with this status was refused.
func (s status) reason() refusedFor {
	switch s {
	case statusBadMagic:
		return refusedMagic
	case statusAuthRequired:
		return refusedAuthRequired
	default:
		return refusedAuthFailed
	}
}
