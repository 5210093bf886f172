//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock takes flock, which belongs to the open file and not to the process: so
// it holds between two opens in one process too, and ends with the close or
// with the process.
func lock(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var lerr error
	err = conn.Control(func(fd uintptr) {
		for {
			lerr = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB)
			if lerr != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	if lerr == unix.EWOULDBLOCK {
		return ErrLocked
	}
	return lerr
}
