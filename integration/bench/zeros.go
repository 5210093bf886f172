package bench

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	zerosAhead = 8 << 20  // of the last write, at most
	zerosWrite = 64 << 10 // at once
	zerosSync  = 1 << 20  // at once
	// With syncs of more a file that grows is faster without.
	zerosBelow = 96 << 10
)

// zeroer writes zeros ahead of a bareDisk's writes into a file that grows, as any
// log must that wants its syncs to touch data alone and has not written its file
// before.
type zeroer struct {
	file *os.File // a description of its own
	mu   struct {
		sync.Mutex
		// at is where the disk's writes end, zeroed where the zeros do.
		at, zeroed int64
		running    bool
		err        error
	}
	done sync.WaitGroup
}

// claim keeps zeros off what is before end, and writes more if few are left.
func (z *zeroer) claim(end int64) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.mu.at = end
	if !z.mu.running && z.mu.zeroed-end < zerosAhead/2 && z.mu.err == nil {
		z.mu.running = true
		z.done.Go(z.run)
	}
	return z.mu.err
}

func (z *zeroer) run() {
	zeros := make([]byte, zerosWrite)
	for written := 0; ; written += len(zeros) {
		z.mu.Lock()
		// A little beyond what may be written next, so that nobody need wait.
		from := max(z.mu.zeroed, z.mu.at+zerosSync)
		if from >= z.mu.at+zerosAhead || z.mu.err != nil {
			z.mu.running = false
			z.mu.Unlock()
			return
		}
		z.mu.zeroed = from + int64(len(zeros))
		z.mu.Unlock()
		_, err := z.file.WriteAt(zeros, from)
		if err == nil && (written+len(zeros))%zerosSync == 0 {
			err = unix.Fdatasync(int(z.file.Fd()))
		}
		z.mu.Lock()
		z.mu.err = err
		z.mu.Unlock()
	}
}

func (z *zeroer) close() error {
	z.done.Wait()
	return z.file.Close()
}
