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
	do             func(caller int) error
}

// self is the benchmark's own process.
func self() process { return process{"bench", os.Getpid()} }

// measure runs callers for the window, adds a row and returns it.
func measure(b *testing.B, row Row, w work, processes ...process) Row {
	b.Helper()
	if w.unit == "" {
		w.unit = "rec"
	}
	_, err := run(w, window()/5)
	require.NoError(b, err)
	m, err := startMeter(processes...)
	require.NoError(b, err)
	began := time.Now()
	latencies, err := run(w, window())
	took := time.Since(began)
	require.NoError(b, err)
	row.Used, err = m.stop()
	require.NoError(b, err)

	slices.Sort(latencies)
	row.Unit = w.unit
	row.Rate = float64(len(latencies)*w.records) / took.Seconds()
	row.Bytes = float64(len(latencies)*w.bytes) / took.Seconds()
	row.P50, row.P99 = latencies[len(latencies)/2], latencies[len(latencies)*99/100]
	report(b, row)
	return row
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
