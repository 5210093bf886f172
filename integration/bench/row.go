package bench

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluiceio/sluice/integration/usage"
)

// Row is one measurement. Zero fields are left out of the table.
type Row struct {
	Name string
	// Rate is how many of Unit were done a second.
	Rate float64
	Unit string
	// Done is how many it were; CPU time is shown for each of them too.
	Done int64
	// Bytes a second of payload.
	Bytes    float64
	P50, P99 time.Duration
	Used     []Used
	// Note says in words what is no rate.
	Note string
	// Against names the row that the ratio is to. Of two notes there is none.
	Against string
}

// Used is what one process used during the measurement.
type Used struct {
	Process string
	CPU     time.Duration
	MaxRSS  int64
}

// table has the rows of a run in their order.
type table struct {
	mu   sync.Mutex
	rows []Row
}

func (t *table) add(r Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows = append(t.rows, r)
}

// Markdown renders the table; empty without rows.
func (t *table) Markdown() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.rows) == 0 {
		return ""
	}
	var text strings.Builder
	text.WriteString("| what | rate | MiB/s | p50 | p99 | CPU s | max RSS MiB | ratio |\n|---|--:|--:|--:|--:|--:|--:|---|\n")
	for _, r := range t.rows {
		cells := []string{r.Name, r.rate(), "", "", "", r.cpu(), r.rss(), t.ratio(r)}
		if r.Bytes > 0 {
			cells[2] = fmt.Sprintf("%.1f", r.Bytes/(1<<20))
		}
		if r.P99 > 0 {
			cells[3], cells[4] = milliseconds(r.P50), milliseconds(r.P99)
		}
		fmt.Fprintf(&text, "| %s |\n", strings.Join(cells, " | "))
	}
	return text.String()
}

func (r Row) rate() string {
	if r.Note != "" {
		return r.Note
	}
	return fmt.Sprintf("%.0f %s/s", r.Rate, r.Unit)
}

func (r Row) cpu() string {
	return r.each(func(u Used) string {
		text := fmt.Sprintf("%s %.2f", u.Process, u.CPU.Seconds())
		if r.Done > 0 {
			text += fmt.Sprintf(" (%.2f µs each)", float64(u.CPU.Nanoseconds())/1000/float64(r.Done))
		}
		return text
	})
}

func (r Row) rss() string {
	return r.each(func(u Used) string { return fmt.Sprintf("%s %d", u.Process, u.MaxRSS>>20) })
}

func (r Row) each(show func(Used) string) string {
	parts := make([]string, len(r.Used))
	for i, u := range r.Used {
		parts[i] = show(u)
	}
	return strings.Join(parts, ", ")
}

func (t *table) ratio(r Row) string {
	i := slices.IndexFunc(t.rows, func(other Row) bool { return other.Name == r.Against })
	if i < 0 || t.rows[i].Rate == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f of %s", r.Rate/t.rows[i].Rate, r.Against)
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

// meter reads what processes use between two moments.
type meter struct {
	names  []string
	pids   []int
	before []usage.Usage
}

// process names a process whose use is measured.
type process struct {
	name string
	pid  int
}

func startMeter(processes ...process) (*meter, error) {
	m := &meter{}
	for _, p := range processes {
		// Not every system lets it be reset; then MaxRSS is that since the
		// process's start.
		_ = usage.ResetPeak(p.pid)
		u, err := usage.Of(p.pid)
		if err != nil {
			return nil, err
		}
		m.names, m.pids, m.before = append(m.names, p.name), append(m.pids, p.pid), append(m.before, u)
	}
	return m, nil
}

func (m *meter) stop() ([]Used, error) {
	used := make([]Used, len(m.pids))
	for i, pid := range m.pids {
		u, err := usage.Of(pid)
		if err != nil {
			return nil, err
		}
		used[i] = Used{m.names[i], u.CPU - m.before[i].CPU, u.MaxRSS}
	}
	return used, nil
}

// addUsed adds up what the same processes used at two times.
func addUsed(a, b []Used) []Used {
	if a == nil {
		return b
	}
	for i := range a {
		a[i].CPU += b[i].CPU
		a[i].MaxRSS = max(a[i].MaxRSS, b[i].MaxRSS)
	}
	return a
}
