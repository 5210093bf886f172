//go:build !linux

package vfs

import "errors"

// DiskSpace is not known here.
func DiskSpace(string) (Space, error) { return Space{}, errors.ErrUnsupported }

// WritevAt writes one buffer after the other: where there is no pwritev it is
// several writes.
func (f osFile) WritevAt(bufs [][]byte, off int64) (int, error) {
	written := 0
	for _, b := range bufs {
		n, err := f.WriteAt(b, off+int64(written))
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// Datasync is a whole fsync where there is no other.
func (f osFile) Datasync() error { return f.Sync() }
