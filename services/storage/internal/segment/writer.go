package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/sluiceio/sluice/services/kit/vfs"
)

// ErrSync marks an error of a sync: what the file holds now is not known.
var ErrSync = errors.New("sync failed")

// Writer appends to the active segment's log file. Its methods are for one
// goroutine.
type Writer struct {
	f      vfs.File
	end    int64
	synced int64  // synced <= end
	ahead  *ahead // nil: no zeros are written ahead
}

// NewWriter takes over an open file of which the first end bytes are batches and
// the rest is zeros. a may be nil.
func NewWriter(f vfs.File, end int64, a *Ahead) *Writer {
	w := &Writer{f: f, end: end, synced: end}
	if a != nil {
		w.ahead = newAhead(*a, end)
	}
	return w
}

// End is the position after the last batch.
func (w *Writer) End() int64 { return w.end }

// Synced is the position up to which batches are durable.
func (w *Writer) Synced() int64 { return w.synced }

// Append writes whole batches of n bytes in all, in pieces. They are durable after
// the next Sync. After an error the writer is of no more use.
func (w *Writer) Append(pieces [][]byte, n int64) error {
	if w.ahead != nil {
		w.ahead.claim(w.end + n)
	}
	if _, err := w.f.WritevAt(pieces, w.end); err != nil {
		return fmt.Errorf("append to segment: %w", err)
	}
	w.end += n
	return nil
}

// Sync makes all that was appended durable.
func (w *Writer) Sync() error {
	if w.synced == w.end {
		return nil
	}
	if err := w.f.Datasync(); err != nil {
		return fmt.Errorf("%w: segment: %w", ErrSync, err)
	}
	synced := w.end - w.synced
	w.synced = w.end
	if w.ahead != nil {
		w.ahead.more(synced)
	}
	return nil
}

// Cut removes what is after the last batch, for good.
func (w *Writer) Cut() error {
	if err := w.Sync(); err != nil {
		return err
	}
	w.stopAhead()
	size, err := w.f.Size()
	if err != nil {
		return fmt.Errorf("size of segment: %w", err)
	}
	switch {
	case size < w.end:
		return corrupt(size)
	case size == w.end:
		return nil
	default:
		return cutTo(w.f, w.end)
	}
}

// CutFile removes what is after the first size bytes of a log file, for good. A
// file that is shorter is corrupt.
func CutFile(fsys vfs.FS, name string, size int64) error {
	f, err := fsys.Open(name)
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	has, err := f.Size()
	switch {
	case err != nil:
		err = fmt.Errorf("size of segment: %w", err)
	case has < size:
		err = corrupt(has)
	default:
		err = cutTo(f, size)
	}
	return errors.Join(err, closing(f))
}

func cutTo(f vfs.File, size int64) error {
	if err := f.Truncate(size); err != nil {
		return fmt.Errorf("cut segment: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("%w: segment: %w", ErrSync, err)
	}
	return nil
}

func closing(c io.Closer) error {
	if err := c.Close(); err != nil {
		return fmt.Errorf("close segment: %w", err)
	}
	return nil
}

func (w *Writer) stopAhead() {
	if w.ahead != nil {
		w.ahead.stop()
	}
}

// Close closes the file. It syncs nothing.
func (w *Writer) Close() error {
	w.stopAhead()
	return closing(w.f)
}
