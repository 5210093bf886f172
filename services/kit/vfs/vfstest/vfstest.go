// Package vfstest holds what every vfs.FS must do, as one suite that runs on
// each of them.
package vfstest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/vfs"
)

// Run runs the suite. newFS returns a file system and an empty folder of it
// that the test may fill.
func Run(t *testing.T, newFS func(t *testing.T) (vfs.FS, string)) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, vfs.FS, string){
		"bytes":               testBytes,
		"gathered write":      testWritev,
		"many buffers":        testManyBuffers,
		"gap reads as zeros":  testGap,
		"truncate":            testTruncate,
		"open":                testOpen,
		"closed handle":       testClosed,
		"removed while open":  testRemovedWhileOpen,
		"rename":              testRename,
		"rename refused":      testRenameRefused,
		"folders":             testFolders,
		"remove":              testRemove,
		"remove all":          testRemoveAll,
		"file in the way":     testFileInTheWay,
		"lock":                testLock,
		"negative offset":     testNegativeOffset,
		"concurrent use":      testConcurrent,
		"buffers stay theirs": testBuffersCopied,
	} {
		t.Run(name, func(t *testing.T) {
			fsys, dir := newFS(t)
			test(t, fsys, dir)
		})
	}
}

// ReadFile returns all of a file.
func ReadFile(t require.TestingT, fsys vfs.FS, name string) []byte {
	f, err := fsys.OpenRead(name)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	if size > 0 {
		n, err := f.ReadAt(b, 0)
		require.Equal(t, int(size), n)
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
		}
	}
	require.NoError(t, f.Close())
	return b
}

// WriteFile makes a file with these bytes. Nothing of it is synced.
func WriteFile(t require.TestingT, fsys vfs.FS, name string, b []byte) {
	f, err := fsys.Create(name)
	require.NoError(t, err)
	_, err = f.WriteAt(b, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func testBytes(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	name := path.Join(dir, "f")
	f, err := fsys.Create(name)
	require.NoError(t, err)
	n, err := f.WriteAt([]byte("hello world"), 0)
	require.NoError(t, err)
	require.Equal(t, 11, n)
	n, err = f.WriteAt([]byte("W"), 6)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, f.Datasync())
	require.NoError(t, f.Sync())

	b := make([]byte, 5)
	n, err = f.ReadAt(b, 6)
	require.NoError(t, err)
	require.Equal(t, "World", string(b[:n]))
	n, err = f.ReadAt(b, 8)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "rld", string(b[:n]))
	n, err = f.ReadAt(b, 11)
	require.ErrorIs(t, err, io.EOF)
	require.Zero(t, n)
	n, err = f.ReadAt(nil, 0)
	require.NoError(t, err)
	require.Zero(t, n)

	size, err := f.Size()
	require.NoError(t, err)
	require.EqualValues(t, 11, size)
	require.NoError(t, f.Close())
	require.Equal(t, "hello World", string(ReadFile(t, fsys, name)))

	f, err = fsys.Create(name) // empties
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Empty(t, ReadFile(t, fsys, name))
}

func testWritev(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	name := path.Join(dir, "f")
	f, err := fsys.Create(name)
	require.NoError(t, err)
	bufs := [][]byte{[]byte("ab"), nil, []byte("cde"), {}, []byte("f")}
	n, err := f.WritevAt(bufs, 2)
	require.NoError(t, err)
	require.Equal(t, 6, n)
	require.Equal(t, "ab", string(bufs[0]), "the caller's slices are left alone")
	require.Equal(t, "f", string(bufs[4]))
	n, err = f.WritevAt(nil, 0)
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = f.WritevAt([][]byte{nil, {}}, 0)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, f.Close())
	require.Equal(t, "\x00\x00abcdef", string(ReadFile(t, fsys, name)))
}

func testManyBuffers(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	name := path.Join(dir, "f")
	f, err := fsys.Create(name)
	require.NoError(t, err)
	var bufs [][]byte
	var want []byte
	for i := range 2500 { // more than IOV_MAX, and empty ones among them
		b := bytes.Repeat([]byte{byte(i)}, i%7)
		bufs = append(bufs, b)
		want = append(want, b...)
	}
	n, err := f.WritevAt(bufs, 0)
	require.NoError(t, err)
	require.Equal(t, len(want), n)
	require.NoError(t, f.Close())
	require.Equal(t, want, ReadFile(t, fsys, name))
}

func testGap(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	name := path.Join(dir, "f")
	f, err := fsys.Create(name)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("x"), 5)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, "\x00\x00\x00\x00\x00x", string(ReadFile(t, fsys, name)))
}

func testTruncate(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	name := path.Join(dir, "f")
	WriteFile(t, fsys, name, []byte("abcdef"))
	f, err := fsys.Open(name)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(3))
	require.Equal(t, "abc", string(ReadFile(t, fsys, name)))
	require.NoError(t, f.Truncate(5))
	require.Equal(t, "abc\x00\x00", string(ReadFile(t, fsys, name)), "what was cut does not come back")
	require.Error(t, f.Truncate(-1))
	require.NoError(t, f.Close())
}

func testOpen(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	name := path.Join(dir, "f")
	for _, open := range []func(string) (vfs.File, error){fsys.Open, fsys.OpenRead} {
		_, err := open(name)
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	_, err := fsys.Create(path.Join(dir, "absent", "f"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = fsys.Open(dir)
	require.Error(t, err, "a folder is no file")
	_, err = fsys.Create(dir)
	require.Error(t, err)

	WriteFile(t, fsys, name, []byte("abc"))
	f, err := fsys.OpenRead(name)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("x"), 0)
	require.Error(t, err)
	_, err = f.WritevAt([][]byte{[]byte("x")}, 0)
	require.Error(t, err)
	require.Error(t, f.Truncate(0))
	require.NoError(t, f.Close())
	require.Equal(t, "abc", string(ReadFile(t, fsys, name)))

	info, err := fsys.Stat(name)
	require.NoError(t, err)
	require.Equal(t, vfs.Info{Size: 3, Modified: info.Modified}, info)
	// Clocks of file systems are as coarse as a second.
	require.WithinDuration(t, time.Now(), info.Modified, time.Minute)
	info, err = fsys.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, vfs.Info{Dir: true}, info)
	_, err = fsys.Stat(path.Join(dir, "absent"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func testClosed(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	f, err := fsys.Create(path.Join(dir, "f"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = f.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, fs.ErrClosed)
	_, err = f.WriteAt([]byte("x"), 0)
	require.ErrorIs(t, err, fs.ErrClosed)
	_, err = f.WritevAt([][]byte{[]byte("x")}, 0)
	require.ErrorIs(t, err, fs.ErrClosed)
	require.ErrorIs(t, f.Truncate(0), fs.ErrClosed)
	require.ErrorIs(t, f.Datasync(), fs.ErrClosed)
	require.ErrorIs(t, f.Sync(), fs.ErrClosed)
	_, err = f.Size()
	require.ErrorIs(t, err, fs.ErrClosed)
	require.ErrorIs(t, f.Close(), fs.ErrClosed)
}

func testRemovedWhileOpen(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	name := path.Join(dir, "f")
	WriteFile(t, fsys, name, []byte("old"))
	f, err := fsys.Open(name)
	require.NoError(t, err)
	require.NoError(t, fsys.Remove(name))
	WriteFile(t, fsys, name, []byte("new"))
	b := make([]byte, 3)
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	require.Equal(t, "old", string(b))
	require.NoError(t, f.Close())
	require.Equal(t, "new", string(ReadFile(t, fsys, name)))
}

func testRename(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	a, b := path.Join(dir, "a"), path.Join(dir, "b")
	WriteFile(t, fsys, a, []byte("a"))
	WriteFile(t, fsys, b, []byte("b"))
	f, err := fsys.OpenRead(b)
	require.NoError(t, err)
	require.NoError(t, fsys.Rename(a, b))
	_, err = fsys.Stat(a)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, "a", string(ReadFile(t, fsys, b)))
	buf := make([]byte, 1)
	_, err = f.ReadAt(buf, 0)
	require.NoError(t, err)
	require.Equal(t, "b", string(buf), "an open file stays what it was")
	require.NoError(t, f.Close())
	require.NoError(t, fsys.Rename(b, b))
	require.Equal(t, "a", string(ReadFile(t, fsys, b)))

	d, e := path.Join(dir, "d"), path.Join(dir, "e")
	require.NoError(t, fsys.MkdirAll(path.Join(d, "sub")))
	WriteFile(t, fsys, path.Join(d, "sub", "f"), []byte("deep"))
	require.NoError(t, fsys.Rename(d, e))
	require.Equal(t, "deep", string(ReadFile(t, fsys, path.Join(e, "sub", "f"))))
	require.NoError(t, fsys.Rename(path.Join(e, "sub", "f"), path.Join(dir, "g")))
	require.Equal(t, "deep", string(ReadFile(t, fsys, path.Join(dir, "g"))))
	require.NoError(t, fsys.SyncDir(dir))
}

func testRenameRefused(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	f, d := path.Join(dir, "f"), path.Join(dir, "d")
	WriteFile(t, fsys, f, nil)
	require.NoError(t, fsys.MkdirAll(d))
	require.ErrorIs(t, fsys.Rename(path.Join(dir, "absent"), f), fs.ErrNotExist)
	require.ErrorIs(t, fsys.Rename(f, path.Join(dir, "absent", "f")), fs.ErrNotExist)
	require.ErrorIs(t, fsys.Rename(f, d), fs.ErrExist)
	require.Error(t, fsys.Rename(d, f))
	require.Error(t, fsys.Rename(d, path.Join(d, "into-itself")))
	names, err := fsys.List(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"d", "f"}, names)
}

func testFolders(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	deep := path.Join(dir, "a", "b", "c")
	require.NoError(t, fsys.MkdirAll(deep))
	require.NoError(t, fsys.MkdirAll(deep), "already there")
	for _, name := range []string{"z", "10", "9", "a"} {
		WriteFile(t, fsys, path.Join(deep, name), nil)
	}
	names, err := fsys.List(deep)
	require.NoError(t, err)
	require.Equal(t, []string{"10", "9", "a", "z"}, names)
	names, err = fsys.List(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, names)
	_, err = fsys.List(path.Join(dir, "absent"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, fsys.SyncDir(deep))
	require.ErrorIs(t, fsys.SyncDir(path.Join(dir, "absent")), fs.ErrNotExist)
}

func testRemove(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	d := path.Join(dir, "d")
	require.NoError(t, fsys.MkdirAll(d))
	WriteFile(t, fsys, path.Join(d, "f"), nil)
	require.Error(t, fsys.Remove(d), "not empty")
	require.NoError(t, fsys.Remove(path.Join(d, "f")))
	require.ErrorIs(t, fsys.Remove(path.Join(d, "f")), fs.ErrNotExist)
	require.NoError(t, fsys.Remove(d))
	_, err := fsys.Stat(d)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func testRemoveAll(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	d := path.Join(dir, "d")
	require.NoError(t, fsys.MkdirAll(path.Join(d, "e", "f")))
	WriteFile(t, fsys, path.Join(d, "e", "g"), []byte("x"))
	WriteFile(t, fsys, path.Join(d, "h"), []byte("x"))
	require.NoError(t, fsys.RemoveAll(d))
	require.NoError(t, fsys.RemoveAll(d), "absent is no error")
	require.NoError(t, fsys.RemoveAll(path.Join(d, "x", "y")))
	WriteFile(t, fsys, d, nil)
	require.NoError(t, fsys.RemoveAll(d), "a file")
	names, err := fsys.List(dir)
	require.NoError(t, err)
	require.Empty(t, names)
}

func testFileInTheWay(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	f := path.Join(dir, "f")
	WriteFile(t, fsys, f, nil)
	require.Error(t, fsys.MkdirAll(f))
	require.Error(t, fsys.MkdirAll(path.Join(f, "d")))
	_, err := fsys.Create(path.Join(f, "g"))
	require.Error(t, err)
	_, err = fsys.List(f)
	require.Error(t, err)
}

func testLock(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	name := path.Join(dir, "lock")
	l, err := fsys.Lock(name)
	require.NoError(t, err)
	_, err = fsys.Lock(name)
	require.ErrorIs(t, err, vfs.ErrLocked)
	_, err = fsys.Stat(name)
	require.NoError(t, err)
	other, err := fsys.Lock(path.Join(dir, "other"))
	require.NoError(t, err)
	require.NoError(t, l.Close())
	l, err = fsys.Lock(name)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoError(t, other.Close())
	_, err = fsys.Lock(path.Join(dir, "absent", "lock"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func testNegativeOffset(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	f, err := fsys.Create(path.Join(dir, "f"))
	require.NoError(t, err)
	_, err = f.ReadAt(make([]byte, 1), -1)
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF)
	_, err = f.WriteAt([]byte("x"), -1)
	require.Error(t, err)
	_, err = f.WritevAt([][]byte{[]byte("x")}, -1)
	require.Error(t, err)
	require.NoError(t, f.Close())
}

func testConcurrent(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	const writers, rounds, block = 4, 50, 100
	name := path.Join(dir, "shared")
	f, err := fsys.Create(name)
	require.NoError(t, err)
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		wg.Go(func() {
			own := path.Join(dir, fmt.Sprintf("own-%d", w))
			b := bytes.Repeat([]byte{byte('a' + w)}, block)
			for r := range rounds {
				_, err := f.WriteAt(b, int64(r*writers+w)*block)
				errs[w] = errors.Join(errs[w], err, f.Datasync())
				got := make([]byte, block)
				_, err = f.ReadAt(got, int64(r*writers+w)*block)
				if errors.Is(err, io.EOF) {
					err = nil
				}
				if !bytes.Equal(b, got) {
					err = errors.Join(err, errors.New("read back other bytes"))
				}
				g, cerr := fsys.Create(own)
				errs[w] = errors.Join(errs[w], err, cerr)
				if cerr == nil {
					errs[w] = errors.Join(errs[w], g.Close())
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.NoError(t, f.Close())
	require.Len(t, ReadFile(t, fsys, name), writers*rounds*block)
	names, err := fsys.List(dir)
	require.NoError(t, err)
	require.Len(t, names, writers+1)
}

func testBuffersCopied(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	name := path.Join(dir, "f")
	f, err := fsys.Create(name)
	require.NoError(t, err)
	b := []byte("abc")
	_, err = f.WriteAt(b, 0)
	require.NoError(t, err)
	_, err = f.WritevAt([][]byte{b}, 3)
	require.NoError(t, err)
	copy(b, "xyz")
	require.NoError(t, f.Datasync())
	require.NoError(t, f.Close())
	require.Equal(t, "abcabc", string(ReadFile(t, fsys, name)))
}
