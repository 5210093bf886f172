package bench

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// diskSize is the usual size of a bareDisk's file.
const diskSize = 64 << 20

// segmentBytes is where one that grows begins again: the size of a segment.
const segmentBytes = 1 << 30

// diskFile says what a bareDisk writes to.
type diskFile int

const (
	// overwritten is a file full of zeros from the start, again and again: a sync
	// touches data alone, and neither blocks nor pages are ever new.
	overwritten diskFile = iota
	// growing is a file that begins empty, which is what a log has for syncs so large
	// that zeros ahead of them would cost more than they save.
	growing
	// zeroedAhead is one that grows, too, with zeros written ahead of what is small:
	// the same writes and syncs as a log's.
	zeroedAhead
)

// maxVec is how many buffers one pwritev takes (IOV_MAX).
const maxVec = 1024

// bareDisk is the least that a log with group commit does: one goroutine writes
// all that waits with one write, syncs it with one fdatasync and tells everybody.
type bareDisk struct {
	file *os.File
	kind diskFile
	size int64
	// zeroer is nil but for zeroedAhead.
	zeroer *zeroer
	at     int64 // of the next write, which begins again at 0 where it would not fit
	done   chan struct{}

	mu struct {
		sync.Mutex
		waiting []diskWrite
		closed  bool
	}
	wake chan struct{} // capacity 1
}

type diskWrite struct {
	bytes []byte
	err   chan error
}

func newBareDisk(path string, size int64, kind diskFile) (*bareDisk, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < size && kind == overwritten; at += int64(len(zeros)) {
		if _, err := file.WriteAt(zeros, at); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	if err := file.Sync(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	d := &bareDisk{file: file, kind: kind, size: size, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	if kind == zeroedAhead {
		other, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
		d.zeroer = &zeroer{file: other}
	}
	go d.run()
	return d, nil
}

// write returns when the bytes are on disk. done is the caller's own channel,
// with a capacity of 1, so that a write allocates nothing.
func (d *bareDisk) write(b []byte, done chan error) error {
	d.mu.Lock()
	d.mu.waiting = append(d.mu.waiting, diskWrite{b, done})
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
	return <-done
}

func (d *bareDisk) run() {
	defer close(d.done)
	var group, spare []diskWrite
	var vec [][]byte
	for range d.wake {
		d.mu.Lock()
		group, d.mu.waiting = d.mu.waiting, spare[:0]
		closed := d.mu.closed
		d.mu.Unlock()
		if closed {
			return
		}
		vec = vec[:0]
		for _, w := range group {
			vec = append(vec, w.bytes)
		}
		err := d.flush(vec)
		for _, w := range group {
			w.err <- err
		}
		spare = group
	}
}

func (d *bareDisk) flush(vec [][]byte) error {
	for len(vec) > 0 {
		part := vec[:min(len(vec), maxVec)]
		vec = vec[len(part):]
		size := 0
		for _, b := range part {
			size += len(b)
		}
		if d.at+int64(size) > d.size {
			d.at = 0
			if d.kind == growing {
				if err := d.file.Truncate(0); err != nil {
					return err
				}
			}
		}
		if d.zeroer != nil {
			if err := d.zeroer.claim(d.at + int64(size)); err != nil {
				return err
			}
		}
		n, err := unix.Pwritev(int(d.file.Fd()), part, d.at)
		if err == nil && n < size {
			err = errors.New("short write")
		}
		if err != nil {
			return err
		}
		d.at += int64(size)
	}
	return unix.Fdatasync(int(d.file.Fd()))
}

// close must not be called while a write waits.
func (d *bareDisk) close() error {
	d.mu.Lock()
	d.mu.closed = true
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
	<-d.done
	if d.zeroer != nil {
		return errors.Join(d.zeroer.close(), d.file.Close())
	}
	return d.file.Close()
}
