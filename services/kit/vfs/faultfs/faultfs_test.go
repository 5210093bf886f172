package faultfs_test

import (
	"errors"
	"io"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/kit/vfs/vfstest"
)

func TestConformance(t *testing.T) {
	vfstest.Run(t, func(*testing.T) (vfs.FS, string) {
		return faultfs.New(memfs.New(), func(faultfs.Op, string) error { return nil }), "/"
	})
}

var errDisk = errors.New("disk gone")

func TestEveryOperationFails(t *testing.T) {
	calls := map[faultfs.Op]func(vfs.FS) error{
		faultfs.Create:    func(f vfs.FS) error { _, err := f.Create("/x"); return err },
		faultfs.Open:      func(f vfs.FS) error { _, err := f.Open("/f"); return err },
		faultfs.OpenRead:  func(f vfs.FS) error { _, err := f.OpenRead("/f"); return err },
		faultfs.Remove:    func(f vfs.FS) error { return f.Remove("/f") },
		faultfs.RemoveAll: func(f vfs.FS) error { return f.RemoveAll("/f") },
		faultfs.Rename:    func(f vfs.FS) error { return f.Rename("/f", "/g") },
		faultfs.MkdirAll:  func(f vfs.FS) error { return f.MkdirAll("/d") },
		faultfs.List:      func(f vfs.FS) error { _, err := f.List("/"); return err },
		faultfs.Stat:      func(f vfs.FS) error { _, err := f.Stat("/f"); return err },
		faultfs.SyncDir:   func(f vfs.FS) error { return f.SyncDir("/") },
		faultfs.Lock:      func(f vfs.FS) error { _, err := f.Lock("/l"); return err },
	}
	for op, onFile := range map[faultfs.Op]func(vfs.File) error{
		faultfs.ReadAt:   func(f vfs.File) error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
		faultfs.WriteAt:  func(f vfs.File) error { _, err := f.WriteAt([]byte("x"), 0); return err },
		faultfs.WritevAt: func(f vfs.File) error { _, err := f.WritevAt([][]byte{[]byte("x")}, 0); return err },
		faultfs.Truncate: func(f vfs.File) error { return f.Truncate(0) },
		faultfs.Datasync: func(f vfs.File) error { return f.Datasync() },
		faultfs.Sync:     func(f vfs.File) error { return f.Sync() },
		faultfs.Size:     func(f vfs.File) error { _, err := f.Size(); return err },
		faultfs.Close:    func(f vfs.File) error { return f.Close() },
	} {
		calls[op] = func(fsys vfs.FS) error {
			f, err := fsys.Open("/f")
			if err != nil {
				return err
			}
			return onFile(f)
		}
	}
	for op, call := range calls {
		t.Run(string(op), func(t *testing.T) {
			inner := memfs.New()
			vfstest.WriteFile(t, inner, "/f", []byte("bytes"))
			fsys := faultfs.New(inner, faultfs.Nth(op, 1, errDisk))
			require.ErrorIs(t, call(fsys), errDisk)
			names, err := inner.List("/")
			require.NoError(t, err)
			require.Equal(t, []string{"f"}, names, "nothing was done")
			require.Equal(t, "bytes", string(vfstest.ReadFile(t, inner, "/f")))
			require.NoError(t, call(fsys), "only the first fails")
		})
	}
}

func TestShortWrite(t *testing.T) {
	inner := memfs.New()
	f, err := faultfs.New(inner, faultfs.Nth(faultfs.WritevAt, 1, &faultfs.Short{N: 4, Err: io.ErrShortWrite})).Create("/f")
	require.NoError(t, err)
	n, err := f.WritevAt([][]byte{[]byte("abc"), []byte("def"), []byte("ghi")}, 0)
	require.ErrorIs(t, err, io.ErrShortWrite)
	require.Equal(t, 4, n)
	require.Equal(t, "abcd", string(vfstest.ReadFile(t, inner, "/f")))
}

func TestFrom(t *testing.T) {
	f, err := faultfs.New(memfs.New(), faultfs.From(faultfs.Datasync, 2, errDisk)).Create("/f")
	require.NoError(t, err)
	require.NoError(t, f.Datasync())
	require.ErrorIs(t, f.Datasync(), errDisk)
	require.ErrorIs(t, f.Datasync(), errDisk)
}

func TestCloseGivesTheFileBack(t *testing.T) {
	f, err := faultfs.New(memfs.New(), faultfs.Nth(faultfs.Close, 1, errDisk)).Create("/f")
	require.NoError(t, err)
	require.ErrorIs(t, f.Close(), errDisk)
	require.ErrorIs(t, f.Datasync(), fs.ErrClosed)
}
