package bench

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkEngine: the log through Raft beside the bare disk with the same
// writes and syncs.
func BenchmarkEngine(b *testing.B) {
	besideDisk(b, "1 caller, 1 KiB", 1, 1, 1<<10, overwritten)
	for _, callers := range []int{8, 64, 256} {
		name := fmt.Sprintf("%d callers, 1 KiB", callers)
		besideDisk(b, name, 1, callers, 1<<10, overwritten)
		besideDisk(b, name+", the disk's file grows, too", 1, callers, 1<<10, newFile(callers<<10))
	}
	besideDisk(b, "64 partitions with 4 callers each, 1 KiB", 64, 4, 1<<10, overwritten)
	besideDisk(b, "streaming 256 KiB, 8 in flight", 1, 8, 256<<10, overwritten)
	besideDisk(b, "streaming 256 KiB, 8 in flight, the disk's file grows, too", 1, 8, 256<<10, growing)
}

// besideDisk measures the disk and the engine in turns.
func besideDisk(b *testing.B, name string, partitions, callersEach, size int, file diskFile) {
	b.Run(name, func(b *testing.B) {
		batch := newBatch(b, 1, size)
		w := work{callers: partitions * callersEach, records: 1, bytes: size}
		bare, log := w, w
		bare.do = writeToDisks(b, partitions, w.callers, batch, file)
		e := newEngine(b, partitions)
		log.do = func(caller int) error { return e.append(b.Context(), int32(caller%partitions), batch) }
		disk := Row{Name: "disk: " + name}
		measureInTurns(b, [2]Row{disk, {Name: "engine: " + name, Against: disk.Name}}, [2]work{bare, log}, self())
	})
}

// newFile is how a file that was not written before is written fastest, with syncs
// of so many bytes.
func newFile(bytes int) diskFile {
	if bytes < zerosBelow {
		return zeroedAhead
	}
	return growing
}

// writeToDisks returns what a caller does on as many bare disks.
func writeToDisks(b *testing.B, files, callers int, batch []byte, file diskFile) func(caller int) error {
	dir, size := b.TempDir(), diskSize/int64(min(files, 16))
	switch file {
	case growing:
		size = segmentBytes
	case zeroedAhead:
		size = math.MaxInt64 // zeros are ahead of what is new alone
	}
	disks := make([]*bareDisk, files)
	for i := range disks {
		var err error
		disks[i], err = newBareDisk(filepath.Join(dir, fmt.Sprint(i)), size, file)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, disks[i].close()) })
	}
	done := make([]chan error, callers)
	for i := range done {
		done[i] = make(chan error, 1)
	}
	return func(caller int) error { return disks[caller%files].write(batch, done[caller]) }
}
