package vfs_test

import (
	"testing"

	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/vfstest"
)

func TestOS(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
		t.Helper()
		return vfs.OS, t.TempDir()
	})
}
