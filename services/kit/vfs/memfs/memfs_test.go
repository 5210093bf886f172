package memfs_test

import (
	"testing"

	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/kit/vfs/vfstest"
)

func TestConformance(t *testing.T) {
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) {
		t.Helper()
		fsys := memfs.New()
		dir := "/data/" + t.Name()
		if err := fsys.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		return fsys, dir
	})
}
