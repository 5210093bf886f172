package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluiceio/sluice/integration/scale"
)

// asleep is longer than a partition takes to go to sleep after its last append.
const asleep = 10 * time.Second

// BenchmarkScale: a topic of 10,000 partitions.
func BenchmarkScale(b *testing.B) {
	r := scale.Measure(b, 10_000, window(), asleep)
	fmt.Printf("\n%s\n", r)
	row := func(name, format string, args ...any) {
		report(b, Row{Name: "10,000 partitions: " + name, Note: fmt.Sprintf(format, args...)})
	}
	row("before", "%d MiB, idle %.1f%%", r.RSSStart>>20, r.IdleBefore*100)
	row("created", "%.2f s, %d MiB, idle %.1f%%", r.Create.Seconds(), r.RSSCreated>>20, r.IdleCreated*100)
	row("stopped and ready again", "%.2f s, of it ready %.2f s, %d MiB, idle %.1f%%",
		r.Restart.Seconds(), r.Ready.Seconds(), r.RSSRestarted>>20, r.IdleRestarted*100)
	row("a record in each", "%.2f s, %d MiB, idle %.1f%%", r.Write.Seconds(), r.RSSWritten>>20, r.IdleWritten*100)
}
