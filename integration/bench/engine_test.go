package bench

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkEngine: the log through Raft beside the bare disk with the same
// writes and syncs.
func BenchmarkEngine(b *testing.B) {
	for _, callers := range []int{1, 8, 64, 256} {
		besideDisk(b, fmt.Sprintf("%d callers, 1 KiB", callers), 1, callers, 1<<10)
	}
	besideDisk(b, "64 partitions with 4 callers each, 1 KiB", 64, 4, 1<<10)
	besideDisk(b, "streaming 256 KiB, 8 in flight", 1, 8, 256<<10)
}

// besideDisk measures the disk and then the engine.
func besideDisk(b *testing.B, name string, partitions, callersEach, size int) {
	disk := Row{Name: "disk: " + name}
	log := Row{Name: "engine: " + name, Against: disk.Name}
	w := work{callers: partitions * callersEach, records: 1, bytes: size}
	b.Run(disk.Name, func(b *testing.B) {
		batch := newBatch(b, 1, size)
		dir := b.TempDir()
		disks := make([]*bareDisk, partitions)
		for i := range disks {
			var err error
			disks[i], err = newBareDisk(filepath.Join(dir, fmt.Sprint(i)))
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, disks[i].close()) })
		}
		done := make([]chan error, w.callers)
		for i := range done {
			done[i] = make(chan error, 1)
		}
		w.do = func(caller int) error { return disks[caller%partitions].write(batch, done[caller]) }
		measure(b, disk, w, self())
	})
	b.Run(log.Name, func(b *testing.B) {
		batch := newBatch(b, 1, size)
		e := newEngine(b, partitions)
		w.do = func(caller int) error { return e.append(b.Context(), int32(caller%partitions), batch) }
		measure(b, log, w, self())
	})
}
