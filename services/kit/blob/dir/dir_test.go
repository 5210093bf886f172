package dir_test

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/kit/blob/blobtest"
	"github.com/sluiceio/sluice/services/kit/blob/dir"
	"github.com/sluiceio/sluice/services/kit/leaks"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func open(t *testing.T, fsys vfs.FS, root string) *dir.Store {
	t.Helper()
	store := dir.New(fsys, root)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return store
}

func TestOnDisk(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store {
		return open(t, vfs.OS, filepath.Join(t.TempDir(), "not", "there", "yet"))
	})
}

func TestInMemory(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store { return open(t, memfs.New(), "/cold") })
}

func TestLarge(t *testing.T) {
	blobtest.Large(t, open(t, vfs.OS, t.TempDir()))
}

func TestNothingIsLeftOnDisk(t *testing.T) {
	root := t.TempDir()
	store := open(t, vfs.OS, root)
	blobtest.Put(t, store, "a/b/c", []byte("x"))
	require.NoError(t, store.Delete(t.Context(), "a/b/c"))
	require.ErrorIs(t, store.Put(t.Context(), "a/b/d", blobtest.Pattern(1), 5, 0), blob.ErrChecksum)
	require.NoError(t, store.Close())
	var left []string
	require.NoError(t, filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		left = append(left, name)
		return err
	}))
	require.Equal(t, []string{root, filepath.Join(root, "~partial")}, left)
}

func TestSaysWhatIsWrongWithTheFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	store := open(t, vfs.OS, file)
	require.ErrorContains(t, store.Put(t.Context(), "o", blobtest.Pattern(1), 0, 0), file)

	root := t.TempDir()
	store = open(t, vfs.OS, root)
	blobtest.Put(t, store, "a", []byte("x"))
	require.ErrorContains(t, store.Put(t.Context(), "a/b", blobtest.Pattern(1), 0, 0), "store object a/b: ")
	blobtest.Put(t, store, "c/d", []byte("x"))
	require.ErrorContains(t, store.Put(t.Context(), "c", blobtest.Pattern(1), 0, 0), "store object c: ")
	require.Equal(t, []string{"a", "c/d"}, blobtest.Names(t, store, ""))
}

// What lies in the folder and is no object is left alone.
func TestStrangersAreLeftAlone(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "lost+found"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "note to self"), nil, 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "empty"), 0o755))
	store := open(t, vfs.OS, root)
	blobtest.Put(t, store, "o", nil)
	require.Equal(t, []string{"o"}, blobtest.Names(t, store, ""))
	require.NoError(t, store.Delete(t.Context(), "empty"))
	require.DirExists(t, filepath.Join(root, "empty"))
	require.FileExists(t, filepath.Join(root, "note to self"))
}

// Two processes may write to one folder, and one that died leaves nothing to
// those that come later.
func TestCleansUpAfterTheDeadAndNoOtherwise(t *testing.T) {
	fsys := memfs.New()
	alive := open(t, fsys, "/cold")
	blobtest.Put(t, alive, "a", nil)
	died := errors.New("died")
	dying := dir.New(faultfs.New(fsys, faultfs.Nth(faultfs.Rename, 1, died)), "/cold")
	// Remove fails with the rename, as everything does in a process that is gone.
	dead := dir.New(faultfs.New(fsys, func(op faultfs.Op, _ string) error {
		if op == faultfs.Rename || op == faultfs.Remove {
			return died
		}
		return nil
	}), "/cold")
	require.ErrorIs(t, dying.Put(t.Context(), "b", blobtest.Pattern(1), 0, 0), died)
	require.ErrorIs(t, dead.Put(t.Context(), "c", blobtest.Pattern(1), 0, 0), died)
	folders := func(fsys vfs.FS) []string {
		names, err := fsys.List("/cold/~partial")
		require.NoError(t, err)
		return names
	}
	require.Len(t, folders(fsys), 3)
	another := open(t, fsys, "/cold")
	blobtest.Put(t, another, "d", nil)
	require.Len(t, folders(fsys), 4, "all hold their locks")

	after := fsys.Kill()
	next := dir.New(after, "/cold")
	blobtest.Put(t, next, "e", nil)
	require.Len(t, folders(after), 1)
	require.Equal(t, []string{"a", "d", "e"}, blobtest.Names(t, next, ""))
	require.NoError(t, errors.Join(dying.Close(), dead.Close()))
}

func TestGoesOnWhenItsWorkspaceIsTaken(t *testing.T) {
	fsys := memfs.New()
	store := open(t, fsys, "/cold")
	blobtest.Put(t, store, "a", nil)
	require.NoError(t, fsys.RemoveAll("/cold/~partial"))
	require.Error(t, store.Put(t.Context(), "b", blobtest.Pattern(1), 0, 0))
	blobtest.Put(t, store, "b", nil)
	require.Equal(t, []string{"a", "b"}, blobtest.Names(t, store, ""))
}

// A source that is gone is no sign that the workspace is.
func TestASourceThatIsGone(t *testing.T) {
	fsys := memfs.New()
	store := open(t, fsys, "/cold")
	blobtest.Put(t, store, "a", nil)
	before, err := fsys.List("/cold/~partial")
	require.NoError(t, err)
	src := &blobtest.Trap{Pattern: 1, After: 0, Do: func() error { return fs.ErrNotExist }}
	require.ErrorIs(t, store.Put(t.Context(), "b", src, 10, 0), fs.ErrNotExist)
	after, err := fsys.List("/cold/~partial")
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestPutFailsWithTheDisk(t *testing.T) {
	full := errors.New("full")
	for _, op := range []faultfs.Op{faultfs.MkdirAll, faultfs.Lock, faultfs.Create, faultfs.WriteAt, faultfs.Sync, faultfs.Rename, faultfs.SyncDir} {
		fsys := memfs.New()
		var failing bool
		store := open(t, faultfs.New(fsys, func(o faultfs.Op, _ string) error {
			if failing && o == op {
				return full
			}
			return nil
		}), "/cold")
		failing = true
		err := store.Put(t.Context(), "a/b", blobtest.Pattern(1), 10, blobtest.Pattern(1).Checksum(10))
		require.ErrorIs(t, err, full, op)
		if op != faultfs.SyncDir {
			require.Empty(t, blobtest.Names(t, store, ""), op)
		}
		failing = false
		require.NoError(t, store.Put(t.Context(), "a/b", blobtest.Pattern(1), 10, blobtest.Pattern(1).Checksum(10)), op)
		require.Equal(t, []string{"a/b"}, blobtest.Names(t, store, ""))
		require.NoError(t, store.Close())
		names, err := fsys.List(path.Join("/cold", "~partial"))
		require.NoError(t, err)
		require.Empty(t, names, op)
	}
}
