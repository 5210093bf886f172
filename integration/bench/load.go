package bench

import (
	"flag"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// defaultWindow is used where -benchtime is not given or is a count.
const defaultWindow = 3 * time.Second

// window is how long a row is measured.
func window() time.Duration {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.benchtime" })
	if f := flag.Lookup("test.benchtime"); given {
		if d, err := time.ParseDuration(f.Value.String()); err == nil {
			return d
		}
	}
	return defaultWindow
}

// work is what callers do side by side, each one operation after the other.
type work struct {
	callers int
	// records and bytes are those of one operation.
	records, bytes int
	unit           string
	// warm is how long it runs before it is measured; a fifth of the window if 0.
	warm time.Duration
	do   func(caller int) error
}

// self is the benchmark's own process.
func self() process { return process{"bench", os.Getpid()} }

// turns is how often two loads that are compared take turns.
const turns = 4

// measure runs callers for the window and adds a row.
func measure(b *testing.B, row Row, w work, processes ...process) {
	b.Helper()
	m := newMeasurement(b, row, w, processes)
	m.warmUp()
	m.turn(window())
	m.report()
}

// measureInTurns measures two loads in turns, so that what else happens on the
// machine meets both, and adds a row for each.
func measureInTurns(b *testing.B, rows [2]Row, loads [2]work, processes ...process) {
	b.Helper()
	var both [2]*measurement
	for i := range both {
		both[i] = newMeasurement(b, rows[i], loads[i], processes)
		both[i].warmUp()
	}
	for range turns {
		for _, m := range both {
			m.turn(window() / turns)
		}
	}
	for _, m := range both {
		m.report()
	}
}

// measurement is one row in the making.
type measurement struct {
	b         *testing.B
	row       Row
	work      work
	processes []process
	took      time.Duration
	latencies []time.Duration
}

func newMeasurement(b *testing.B, row Row, w work, processes []process) *measurement {
	if w.unit == "" {
		w.unit = "rec"
	}
	row.Unit = w.unit
	return &measurement{b: b, row: row, work: w, processes: processes}
}

func (m *measurement) warmUp() {
	d := m.work.warm
	if d == 0 {
		d = window() / 5
	}
	_, err := run(m.work, d)
	require.NoError(m.b, err)
}

// turn adds a time of load.
func (m *measurement) turn(d time.Duration) {
	meter, err := startMeter(m.processes...)
	require.NoError(m.b, err)
	began := time.Now()
	latencies, err := run(m.work, d)
	m.took += time.Since(began)
	require.NoError(m.b, err)
	m.latencies = append(m.latencies, latencies...)
	used, err := meter.stop()
	require.NoError(m.b, err)
	m.row.Used = addUsed(m.row.Used, used)
}

func (m *measurement) report() {
	slices.Sort(m.latencies)
	n := len(m.latencies)
	m.row.Done = int64(n * m.work.records)
	m.row.Rate = float64(m.row.Done) / m.took.Seconds()
	m.row.Bytes = float64(n*m.work.bytes) / m.took.Seconds()
	m.row.P50, m.row.P99 = m.latencies[n/2], m.latencies[n*99/100]
	report(m.b, m.row)
}

// run runs callers for a time and returns how long each operation took.
func run(w work, d time.Duration) ([]time.Duration, error) {
	var over atomic.Bool
	timer := time.AfterFunc(d, func() { over.Store(true) })
	defer timer.Stop()
	type outcome struct {
		latencies []time.Duration
		err       error
	}
	outcomes := make([]outcome, w.callers)
	var callers sync.WaitGroup
	for i := range outcomes {
		callers.Go(func() {
			o := &outcomes[i]
			for o.err == nil && !over.Load() {
				began := time.Now()
				o.err = w.do(i)
				o.latencies = append(o.latencies, time.Since(began))
			}
		})
	}
	callers.Wait()
	var all []time.Duration
	for _, o := range outcomes {
		if o.err != nil {
			return nil, o.err
		}
		all = append(all, o.latencies...)
	}
	return all, nil
}

// report adds a row to the table and to the output of the benchmark.
func report(b *testing.B, row Row) {
	results.add(row)
	if row.Rate > 0 {
		b.ReportMetric(row.Rate, row.Unit+"/s")
	}
	if row.P99 > 0 {
		b.ReportMetric(float64(row.P50.Microseconds()), "p50-µs")
		b.ReportMetric(float64(row.P99.Microseconds()), "p99-µs")
	}
	b.ReportMetric(0, "ns/op") // says nothing here
}

// results are the rows of this run.
var results table
