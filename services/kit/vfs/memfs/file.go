package memfs

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
	"time"

	"github.com/sluiceio/sluice/services/kit/vfs"
)

var _ vfs.File = (*file)(nil)

var errNegativeOffset = errors.New("negative offset")

// file is an open file.
type file struct {
	fs    *FS
	node  *node
	name  string
	write bool

	closed bool // guarded by fs.mu
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if err := f.checkLocked("read", off); err != nil {
		return 0, err
	}
	if len(b) == 0 {
		return 0, nil
	}
	n := 0
	if visible := f.node.content.visible; off < int64(len(visible)) {
		n = copy(b, visible[off:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkWriteLocked("write", off); err != nil {
		return 0, err
	}
	f.node.content.write(b, off)
	f.node.modified = time.Now()
	return len(b), nil
}

func (f *file) WritevAt(bufs [][]byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkWriteLocked("pwritev", off); err != nil {
		return 0, err
	}
	n := 0
	for _, b := range bufs {
		f.node.content.write(b, off+int64(n))
		n += len(b)
	}
	f.node.modified = time.Now()
	return n, nil
}

func (f *file) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkWriteLocked("truncate", size); err != nil {
		return err
	}
	f.node.content.truncate(size)
	f.node.modified = time.Now()
	return nil
}

func (f *file) Datasync() error { return f.sync("fdatasync") }

func (f *file) Sync() error { return f.sync("sync") }

func (f *file) sync(op string) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked(op, 0); err != nil {
		return err
	}
	f.node.content.sync()
	return nil
}

func (f *file) Size() (int64, error) {
	f.fs.mu.RLock()
	defer f.fs.mu.RUnlock()
	if err := f.checkLocked("stat", 0); err != nil {
		return 0, err
	}
	return int64(len(f.node.content.visible)), nil
}

func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.checkLocked("close", 0); err != nil {
		return err
	}
	f.closed = true
	return nil
}

func (f *file) checkLocked(op string, off int64) error {
	switch {
	case f.closed:
		return pathError(op, f.name, fs.ErrClosed)
	case off < 0:
		return pathError(op, f.name, errNegativeOffset)
	}
	return nil
}

func (f *file) checkWriteLocked(op string, off int64) error {
	if !f.write {
		return pathError(op, f.name, syscall.EBADF)
	}
	return f.checkLocked(op, off)
}

// lock is a lock that is held until Close.
type lock struct {
	fs   *FS
	node *node
	name string

	closed bool // guarded by fs.mu
}

func (l *lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.closed {
		return pathError("close", l.name, fs.ErrClosed)
	}
	l.closed = true
	l.node.locked = false
	return nil
}
