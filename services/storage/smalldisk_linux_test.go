package storage_test

import (
	"fmt"
	"syscall"
	"testing"
)

// mountSmall mounts a file system of so many bytes for the time of a test, as far as
// this user may.
func mountSmall(t *testing.T, dir string, size int64) error {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		return err
	}
	t.Cleanup(func() {
		// Lazily: a reader of the machine may look at it just now.
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return nil
}
