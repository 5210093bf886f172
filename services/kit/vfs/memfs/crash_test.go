package memfs_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/kit/vfs/vfstest"
)

// cuts is how often a crash is tried where every outcome must be seen.
const cuts = 400

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func exists(fsys vfs.FS, name string) bool {
	_, err := fsys.Stat(name)
	return err == nil
}

// outcomes counts what look says of the file system over many crashes.
func outcomes(fsys *memfs.FS, look func(*memfs.FS) string) map[string]int {
	seen := map[string]int{}
	for seed := range uint64(cuts) {
		seen[look(fsys.Crash(rng(seed)))]++
	}
	return seen
}

// durable makes a folder that a crash does not take.
func durable(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	require.NoError(t, fsys.MkdirAll(dir))
	for d := dir; d != "/"; d = path.Dir(d) {
		require.NoError(t, fsys.SyncDir(path.Dir(d)))
	}
}

func create(t *testing.T, fsys vfs.FS, name string, b []byte) vfs.File {
	t.Helper()
	f, err := fsys.Create(name)
	require.NoError(t, err)
	_, err = f.WriteAt(b, 0)
	require.NoError(t, err)
	return f
}

func TestSyncedSurvives(t *testing.T) {
	fsys := memfs.New()
	durable(t, fsys, "/d")
	f := create(t, fsys, "/d/f", []byte("kept"))
	require.NoError(t, f.Datasync())
	require.NoError(t, fsys.SyncDir("/d"))
	seen := outcomes(fsys, func(c *memfs.FS) string { return string(vfstest.ReadFile(t, c, "/d/f")) })
	require.Equal(t, map[string]int{"kept": cuts}, seen)
	require.Equal(t, "kept", string(vfstest.ReadFile(t, fsys.Crash(nil), "/d/f")))
}

func TestNameNeedsSyncDir(t *testing.T) {
	fsys := memfs.New()
	durable(t, fsys, "/d")
	f := create(t, fsys, "/d/f", []byte("bytes"))
	require.NoError(t, f.Sync())
	require.False(t, exists(fsys.Crash(nil), "/d/f"))
	seen := outcomes(fsys, func(c *memfs.FS) string { return strconv.FormatBool(exists(c, "/d/f")) })
	require.Positive(t, seen["true"])
	require.Positive(t, seen["false"])
}

func TestFolderNeedsItsParent(t *testing.T) {
	fsys := memfs.New()
	require.NoError(t, fsys.MkdirAll("/a/b"))
	require.NoError(t, create(t, fsys, "/a/b/f", nil).Sync())
	require.NoError(t, fsys.SyncDir("/a/b"))
	require.False(t, exists(fsys.Crash(nil), "/a"))
	require.NoError(t, fsys.SyncDir("/"))
	require.False(t, exists(fsys.Crash(nil), "/a/b"))
	require.NoError(t, fsys.SyncDir("/a"))
	require.True(t, exists(fsys.Crash(nil), "/a/b/f"))
}

func TestUnsyncedUnitsSurviveEachByItself(t *testing.T) {
	fsys := memfs.New()
	durable(t, fsys, "/d")
	f := create(t, fsys, "/d/f", bytes.Repeat([]byte("o"), 8192))
	require.NoError(t, f.Sync())
	require.NoError(t, fsys.SyncDir("/d"))
	_, err := f.WriteAt(bytes.Repeat([]byte("n"), 8192), 0)
	require.NoError(t, err)

	seen := outcomes(fsys, func(c *memfs.FS) string {
		b := vfstest.ReadFile(t, c, "/d/f")
		require.Len(t, b, 8192)
		for i := range b {
			require.Equal(t, b[i/512*512], b[i], "a sector is written whole")
		}
		return string([]byte{b[0], b[512], b[4096]})
	})
	for _, want := range []string{"ooo", "nnn", "noo", "oon", "ono"} {
		require.Contains(t, seen, want)
	}
}

func TestSizeAndBytesPart(t *testing.T) {
	fsys := memfs.New()
	durable(t, fsys, "/d")
	f := create(t, fsys, "/d/f", []byte("old"))
	require.NoError(t, f.Sync())
	require.NoError(t, fsys.SyncDir("/d"))
	_, err := f.WriteAt([]byte("new"), 3)
	require.NoError(t, err)
	look := func(c *memfs.FS) string { return string(vfstest.ReadFile(t, c, "/d/f")) }
	seen := outcomes(fsys, look)
	require.Len(t, seen, 3, "%q", seen)
	require.Contains(t, seen, "old")
	require.Contains(t, seen, "oldnew")
	require.Contains(t, seen, "old\x00\x00\x00", "the size came through, the bytes did not")

	require.NoError(t, f.Datasync())
	require.NoError(t, f.Truncate(1))
	seen = outcomes(fsys, look)
	require.Contains(t, seen, "o")
	require.Contains(t, seen, "oldnew")
	require.NoError(t, f.Datasync())
	require.Equal(t, map[string]int{"o": cuts}, outcomes(fsys, look))
}

func TestRenameIsAtomic(t *testing.T) {
	for _, to := range []string{"/d/new", "/e/new"} {
		fsys := memfs.New()
		durable(t, fsys, "/d")
		require.NoError(t, create(t, fsys, "/d/old", []byte("x")).Sync())
		require.NoError(t, fsys.SyncDir("/d"))
		require.NoError(t, fsys.MkdirAll("/e"))
		require.NoError(t, fsys.Rename("/d/old", to))
		look := func(c *memfs.FS) string { return fmt.Sprint(exists(c, "/d/old"), exists(c, to)) }
		seen := outcomes(fsys, look)
		require.Len(t, seen, 2, "%s: %v", to, seen)
		require.Contains(t, seen, "true false")
		require.Contains(t, seen, "false true")

		require.NoError(t, fsys.SyncDir("/d"))
		require.Equal(t, map[string]int{"false true": cuts}, outcomes(fsys, look))
	}
}

func TestRenamedTwiceIsInOnePlace(t *testing.T) {
	fsys := memfs.New()
	durable(t, fsys, "/d")
	require.NoError(t, create(t, fsys, "/d/a", nil).Sync())
	require.NoError(t, fsys.SyncDir("/d"))
	require.NoError(t, fsys.Rename("/d/a", "/d/b"))
	require.NoError(t, fsys.Rename("/d/b", "/d/c"))
	seen := outcomes(fsys, func(c *memfs.FS) string {
		names, err := c.List("/d")
		require.NoError(t, err)
		return fmt.Sprint(names)
	})
	require.Len(t, seen, 3, "%v", seen)
	for _, want := range []string{"[a]", "[b]", "[c]"} {
		require.Contains(t, seen, want)
	}
}

func TestReplacementIsAtomic(t *testing.T) {
	fsys := memfs.New()
	durable(t, fsys, "/d")
	require.NoError(t, create(t, fsys, "/d/f", []byte("old")).Sync())
	require.NoError(t, fsys.SyncDir("/d"))
	require.NoError(t, create(t, fsys, "/d/f.new", []byte("new")).Sync())
	require.NoError(t, fsys.Rename("/d/f.new", "/d/f"))
	seen := outcomes(fsys, func(c *memfs.FS) string { return string(vfstest.ReadFile(t, c, "/d/f")) })
	require.Len(t, seen, 2, "%v", seen)
	require.Contains(t, seen, "old")
	require.Contains(t, seen, "new")
}

func TestMovedOutOfARemovedFolder(t *testing.T) {
	fsys := memfs.New()
	durable(t, fsys, "/d")
	durable(t, fsys, "/staging")
	require.NoError(t, create(t, fsys, "/staging/f", nil).Sync())
	require.NoError(t, fsys.SyncDir("/staging"))
	require.NoError(t, fsys.Rename("/staging/f", "/d/f"))
	require.NoError(t, fsys.RemoveAll("/staging"))
	for seed := range uint64(cuts) {
		c := fsys.Crash(rng(seed))
		require.NotEqual(t, exists(c, "/staging/f"), exists(c, "/d/f"))
	}
	require.NoError(t, fsys.SyncDir("/"))
	require.True(t, exists(fsys.Crash(nil), "/d/f"))
}

func TestEntriesSurviveEachByItself(t *testing.T) {
	fsys := memfs.New()
	durable(t, fsys, "/d")
	for _, name := range []string{"a", "b"} {
		require.NoError(t, create(t, fsys, "/d/"+name, nil).Sync())
	}
	seen := outcomes(fsys, func(c *memfs.FS) string { return fmt.Sprint(exists(c, "/d/a"), exists(c, "/d/b")) })
	require.Len(t, seen, 4, "%v", seen)
}

func TestKillKeepsWritesAndDropsLocks(t *testing.T) {
	fsys := memfs.New()
	durable(t, fsys, "/d")
	f := create(t, fsys, "/d/f", []byte("written"))
	_, err := fsys.Lock("/d/lock")
	require.NoError(t, err)

	killed := fsys.Kill()
	require.Equal(t, "written", string(vfstest.ReadFile(t, killed, "/d/f")))
	_, err = killed.Lock("/d/lock")
	require.NoError(t, err)
	require.False(t, exists(killed.Crash(nil), "/d/f"), "a kill syncs nothing")

	_, err = f.WriteAt([]byte("late"), 0)
	require.NoError(t, err)
	require.NoError(t, fsys.Remove("/d/lock"))
	require.Equal(t, "written", string(vfstest.ReadFile(t, killed, "/d/f")))
	require.True(t, exists(killed, "/d/lock"))
}

func TestCrashedIsApart(t *testing.T) {
	fsys := memfs.New()
	durable(t, fsys, "/d")
	f := create(t, fsys, "/d/f", []byte("first"))
	require.NoError(t, f.Sync())
	require.NoError(t, fsys.SyncDir("/d"))
	c := fsys.Crash(nil)
	_, err := f.WriteAt([]byte("after"), 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.Equal(t, "first", string(vfstest.ReadFile(t, c, "/d/f")))
	require.Equal(t, "first", string(vfstest.ReadFile(t, c.Crash(nil), "/d/f")))

	g, err := c.Open("/d/f")
	require.NoError(t, err)
	require.NoError(t, g.Truncate(0))
	require.NoError(t, g.Sync())
	require.Equal(t, "after", string(vfstest.ReadFile(t, fsys, "/d/f")))
}

// A random history over a few names in two folders. Every file was made with
// its own bytes and synced, so that the tests below can say for each file where
// it may be found.
func TestRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fsys := memfs.New()
		dirs := []string{"/x", "/y"}
		for _, d := range dirs {
			require.NoError(t, fsys.MkdirAll(d))
		}
		require.NoError(t, fsys.SyncDir("/"))
		name := rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom(dirs).Draw(t, "dir") + "/" + rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "base")
		})
		gone := map[string]bool{} // removed or replaced, durably or not
		made := 0
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				n := name.Draw(t, "name")
				if exists(fsys, n) {
					t.Skip("there")
				}
				made++
				f, err := fsys.Create(n)
				require.NoError(t, err)
				_, err = f.WriteAt(fmt.Append(nil, made), 0)
				require.NoError(t, err)
				require.NoError(t, f.Sync())
			},
			"remove": func(t *rapid.T) {
				n := name.Draw(t, "name")
				if !exists(fsys, n) {
					t.Skip("absent")
				}
				gone[string(vfstest.ReadFile(t, fsys, n))] = true
				require.NoError(t, fsys.Remove(n))
			},
			"rename": func(t *rapid.T) {
				from, to := name.Draw(t, "from"), name.Draw(t, "to")
				if !exists(fsys, from) || from == to {
					t.Skip("absent")
				}
				if exists(fsys, to) {
					gone[string(vfstest.ReadFile(t, fsys, to))] = true
				}
				require.NoError(t, fsys.Rename(from, to))
			},
			"sync": func(t *rapid.T) {
				require.NoError(t, fsys.SyncDir(rapid.SampledFrom(dirs).Draw(t, "dir")))
			},
			"": func(t *rapid.T) {
				old := files(t, fsys.Crash(nil))
				now := files(t, fsys)
				seed := rapid.Uint64().Draw(t, "seed")
				crashed := files(t, fsys.Crash(rng(seed)))
				require.Equal(t, crashed, files(t, fsys.Crash(rng(seed))), "a seed repeats")
				for content := range old {
					if !gone[content] {
						require.Contains(t, crashed, content, "durable and never removed")
					}
				}
				for content, n := range crashed {
					_, before := old[content]
					_, after := now[content]
					require.True(t, before || after || gone[content], "%s at %s", content, n)
				}
			},
		})
		for _, d := range dirs {
			require.NoError(t, fsys.SyncDir(d))
		}
		require.Equal(t, files(t, fsys), files(t, fsys.Crash(nil)))
	})
}

// files maps the bytes of each file to its only name.
func files(t *rapid.T, fsys vfs.FS) map[string]string {
	found := map[string]string{}
	for _, dir := range []string{"/x", "/y"} {
		names, err := fsys.List(dir)
		require.NoError(t, err)
		for _, base := range names {
			n := path.Join(dir, base)
			content := string(vfstest.ReadFile(t, fsys, n))
			require.NotContains(t, found, content, "one file under two names")
			found[content] = n
		}
	}
	return found
}
