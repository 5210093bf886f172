package vfs

import (
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// maxIovecs is IOV_MAX of Linux: more buffers in one call are refused.
const maxIovecs = 1024

// WritevAt goes through pwritev. The kernel may take less than all (a signal, a
// quota, 2 GiB a call); the rest is tried again until it makes no progress, so
// that a short count always comes with the error that explains it.
func (f osFile) WritevAt(bufs [][]byte, off int64) (int, error) {
	left := cursor{bufs: bufs}
	written := 0
	err := f.control("pwritev", func(fd int) error {
		for {
			window := left.next(maxIovecs)
			if len(window) == 0 {
				return nil
			}
			n, err := unix.Pwritev(fd, window, off+int64(written))
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return err
			}
			if n == 0 {
				return io.ErrShortWrite
			}
			written += n
			left.advance(n)
		}
	})
	return written, err
}

// Datasync is fdatasync: on a file whose blocks are written already it spares
// the journal write for the modification time.
func (f osFile) Datasync() error {
	return f.control("fdatasync", func(fd int) error {
		for {
			if err := unix.Fdatasync(fd); err != unix.EINTR {
				return err
			}
		}
	})
}

// DiskSpace tells about the file system that a file or folder is on.
// errors.ErrUnsupported where that is not known.
func DiskSpace(name string) (Space, error) {
	var s unix.Statfs_t
	for {
		switch err := unix.Statfs(name, &s); err {
		case nil:
			return Space{Free: int64(s.Bavail) * s.Bsize, Size: int64(s.Blocks) * s.Bsize}, nil
		case unix.EINTR:
		default:
			return Space{}, &fs.PathError{Op: "statfs", Path: name, Err: err}
		}
	}
}

// control runs call while it holds a reference to the descriptor, so that a
// Close meanwhile cannot hand its number to another file.
func (f osFile) control(op string, call func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	if err := conn.Control(func(fd uintptr) { callErr = call(int(fd)) }); err != nil {
		callErr = fs.ErrClosed // the only reason that Control has
	}
	if callErr != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: callErr}
	}
	return nil
}

// cursor walks buffers that are written piece by piece, without changing the
// caller's slice of them.
type cursor struct {
	bufs [][]byte // what no window has reached yet
	// window is a copy of the buffers under way, without what is written and
	// without empty ones.
	window [][]byte
}

// next returns up to limit buffers that start with the first unwritten byte.
func (c *cursor) next(limit int) [][]byte {
	if len(c.window) > 0 {
		return c.window
	}
	for len(c.bufs) > 0 && len(c.window) < limit {
		if len(c.bufs[0]) > 0 {
			if c.window == nil {
				c.window = make([][]byte, 0, min(limit, len(c.bufs)))
			}
			c.window = append(c.window, c.bufs[0])
		}
		c.bufs = c.bufs[1:]
	}
	return c.window
}

// advance steps over n written bytes of the window.
func (c *cursor) advance(n int) {
	for n > 0 {
		if n < len(c.window[0]) {
			c.window[0] = c.window[0][n:]
			return
		}
		n -= len(c.window[0])
		c.window = c.window[1:]
	}
	if len(c.window) == 0 {
		c.window = nil
	}
}
