package binproto_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/binproto"
)

// series are the values of a registry by name and labels.
type series struct {
	tb       testing.TB
	registry *prometheus.Registry
}

func (s series) all() map[string]int {
	s.tb.Helper()
	families, err := s.registry.Gather()
	require.NoError(s.tb, err)
	values := make(map[string]int)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			name := strings.TrimPrefix(family.GetName(), "sluice_binary_")
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case m.GetCounter() != nil:
				values[name] = int(m.GetCounter().GetValue())
			case m.GetGauge() != nil:
				values[name] = int(m.GetGauge().GetValue())
			case m.GetHistogram() != nil:
				values[name] = int(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return values
}

// comesTo waits until a series has a value.
func (s series) comesTo(want int, name string) {
	s.tb.Helper()
	require.Eventually(s.tb, func() bool { return s.all()[name] == want }, eventually, tick, "%s is not %d", name, want)
}

func observed(s series) func(*binproto.Config, *binproto.Deps) {
	return func(_ *binproto.Config, deps *binproto.Deps) { deps.Registerer = s.registry }
}

func TestSeriesOfRequests(t *testing.T) {
	s := series{t, prometheus.NewRegistry()}
	f := &fake{}
	f.require(map[string]*registryv1.Principal{"writer": grant(registryv1.Action_ACTION_WRITE, "t")})
	d := start(t, f, observed(s))
	c := d.join(t, "writer", 0)
	received := len(hello("ES01", 0, "writer"))
	sent := len(reply(0, 0, ""))
	call := func(op byte, payload string) {
		t.Helper()
		answer := c.call(op, payload)
		received += 9 + len(payload)
		sent += 9 + len(answer.payload)
	}
	for range 3 {
		call(produce, records("t", val("x")))
	}
	call(produce, records("t", val("refused")))
	call(produce, records("billing", val("x")))
	call(consume, reading("t", 0))
	call(consume, str16("t"))
	call(ping, "ignored")
	call(0x7f, "")
	got := s.all()
	for name, want := range map[string]int{
		"connections":                                             1,
		"connections_accepted_total":                              1,
		"requests_total{opcode=produce,outcome=OK}":               3,
		"requests_total{opcode=produce,outcome=InvalidArgument}":  1,
		"requests_total{opcode=produce,outcome=PermissionDenied}": 1,
		"requests_total{opcode=consume,outcome=OK}":               1,
		"requests_total{opcode=consume,outcome=InvalidArgument}":  1,
		"requests_total{opcode=ping,outcome=OK}":                  1,
		"requests_total{opcode=other,outcome=InvalidArgument}":    1,
		"request_seconds{opcode=produce}":                         5,
		"request_seconds{opcode=consume}":                         2,
		"request_seconds{opcode=ping}":                            1,
		"produce_group_requests":                                  4,
		"received_bytes_total":                                    received,
	} {
		require.Equal(t, want, got[name], name)
	}
	s.comesTo(sent, "sent_bytes_total")
	s.comesTo(0, "budget_bytes{budget=requests}")
	s.comesTo(0, "budget_bytes{budget=answers}")
}

func TestSeriesOfBudgets(t *testing.T) {
	s := series{t, prometheus.NewRegistry()}
	g := &gate{}
	d := start(t, &fake{before: g.pass}, observed(s))
	open := g.close(t, "t")
	c := d.join(t, "", 0)
	c.ask(produce, records("t", val(strings.Repeat("x", 300<<10))))
	c.ask(consume, reading("t", 0))
	s.comesTo(512<<10, "budget_bytes{budget=requests}")
	// 1 MiB and what stands around 100 records, and a buffer for the frame of it.
	s.comesTo(1<<20+20+100*28+5<<18, "budget_bytes{budget=answers}")
	open()
	c.next()
	c.next()
	s.comesTo(0, "budget_bytes{budget=requests}")
	s.comesTo(0, "budget_bytes{budget=answers}")
}

func TestSeriesOfConnections(t *testing.T) {
	s := series{t, prometheus.NewRegistry()}
	f := &fake{}
	keys := map[string]*registryv1.Principal{"writer": grant(registryv1.Action_ACTION_WRITE, "t"), "other": {Id: "other"}}
	f.require(keys)
	d := start(t, f, observed(s))
	// One that has less patience, for those who stop.
	hasty := func(set func(*binproto.Config)) (series, *door) {
		s := series{t, prometheus.NewRegistry()}
		return s, start(t, f, observed(s), func(c *binproto.Config, _ *binproto.Deps) { set(c) })
	}
	refused := func(reason string) {
		t.Helper()
		s.comesTo(1, fmt.Sprintf("connections_refused_total{reason=%s}", reason))
	}
	closed := func(s series, reason string) {
		t.Helper()
		s.comesTo(1, fmt.Sprintf("connections_closed_total{reason=%s}", reason))
	}
	for reason, said := range map[string][]byte{
		"bad_magic":     []byte("GET / HTTP/1.1\r\n"),
		"auth_failed":   hello("ES01", 0, "wrong"),
		"auth_required": hello("ES01", 0, ""),
	} {
		c := d.dial(t)
		c.send(said)
		refused(reason)
		require.NoError(t, c.conn.Close())
	}
	c := d.dial(t)
	c.send([]byte("ES"))
	require.NoError(t, c.conn.Close())
	refused("broken_handshake")
	s.comesTo(0, "connections")

	require.NoError(t, d.join(t, "writer", 0).conn.Close())
	closed(s, "client")
	impatient, strict := hasty(func(c *binproto.Config) { c.StallTimeout = 50 * time.Millisecond })
	strict.join(t, "writer", 0).send([]byte{0})
	closed(impatient, "slow_sender")
	malformed := d.join(t, "writer", 0)
	malformed.send([]byte(u32(3)))
	closed(s, "malformed")
	require.NoError(t, malformed.conn.Close())
	for range 8 {
		c := d.join(t, "writer", 0)
		require.Equal(t, byte(0x81), c.call(produce, records("t", val(strings.Repeat("x", 1000_000)))).op)
		require.NoError(t, c.conn.Close())
		s.comesTo(0, "connections")
	}
	impatient, strict = hasty(func(c *binproto.Config) { c.WriteTimeout = 100 * time.Millisecond })
	slow := strict.join(t, "writer", 0)
	require.NoError(t, slow.conn.(*net.TCPConn).SetReadBuffer(4<<10))
	slow.ask(consume, reading("t", 0))
	closed(impatient, "slow_reader")
	require.NoError(t, slow.conn.Close())
	impatient.comesTo(0, "connections")

	first, second := d.join(t, "writer", 0), d.join(t, "other", 0)
	s.comesTo(2, "connections")
	f.require(map[string]*registryv1.Principal{"writer": keys["writer"]})
	second.ask(ping, "")
	second.next()
	second.ask(consume, reading("t", 0))
	closed(s, "unauthenticated")
	require.NoError(t, second.conn.Close())
	first.alive()
	go d.stop()
	closed(s, "stop")
	require.NoError(t, first.conn.Close())
}

func TestSeriesOfTooManyConnections(t *testing.T) {
	s := series{t, prometheus.NewRegistry()}
	d := start(t, &fake{}, observed(s), func(c *binproto.Config, _ *binproto.Deps) { c.ConnectionsPerAddress = 2 })
	d.join(t, "", 0)
	d.join(t, "", 0)
	d.dial(t).over()
	s.comesTo(1, "connections_refused_total{reason=too_many_connections}")
	s.comesTo(2, "connections")
}

func TestSeriesOfTheIdle(t *testing.T) {
	s := series{t, prometheus.NewRegistry()}
	d := start(t, &fake{}, observed(s), func(c *binproto.Config, _ *binproto.Deps) { c.IdleTimeout = 20 * time.Millisecond })
	d.join(t, "", 0).over()
	s.comesTo(1, "connections_closed_total{reason=idle}")
}
