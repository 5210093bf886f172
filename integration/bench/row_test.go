package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	var table table
	require.Empty(t, table.Markdown())
	table.add(Row{Name: "a", Rate: 200, Unit: "rec", Bytes: 3 << 20, P50: time.Millisecond, P99: 2500 * time.Microsecond,
		Done: 1000, Used: []Used{{"x", 2 * time.Second, 5 << 20}, {"y", time.Second, 7 << 20}}})
	table.add(Row{Name: "b", Rate: 100, Unit: "rec", Against: "a"})
	table.add(Row{Name: "c", Note: "5 ms", Against: "not there"})
	require.Equal(t, `| what | rate | MiB/s | p50 | p99 | CPU s | max RSS MiB | ratio |
|---|--:|--:|--:|--:|--:|--:|---|
| a | 200 rec/s | 3.0 | 1.00 ms | 2.50 ms | x 2.00 (2000.00 µs each), y 1.00 (1000.00 µs each) | x 5, y 7 |  |
| b | 100 rec/s |  |  |  |  |  | 0.50 of a |
| c | 5 ms |  |  |  |  |  |  |
`, table.Markdown())
}

func TestBareDiskAnswersEveryWrite(t *testing.T) {
	disk, err := newBareDisk(t.TempDir()+"/disk", 1<<20, overwritten)
	require.NoError(t, err)
	done := make([]chan error, 8)
	for i := range done {
		done[i] = make(chan error, 1)
	}
	batch := newBatch(t, 1, 100_000)
	latencies, err := run(work{callers: len(done), records: 1, do: func(caller int) error { return disk.write(batch, done[caller]) }}, 50*time.Millisecond)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(latencies), len(done))
	require.NoError(t, disk.close())
}
