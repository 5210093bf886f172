// Package memfs is a file system in memory that can crash.
//
// It keeps two states apart: what everybody sees, and what is durable. The way
// from one to the other is a list of pending changes, for each file its writes
// and size changes, and for the folders every making, removal and rename of an
// entry. A sync carries its changes over; [FS.Crash] carries over some of them
// and drops the rest, as unkindly as disks and journals are allowed to:
//
//   - Of the unsynced writes each sector or page survives by itself, in any
//     version that it had since the sync.
//   - A file's size survives by itself, whatever became of the bytes.
//   - Entries survive each by itself, older changes of a name before newer
//     ones. A rename is atomic: both of its names change or neither does. A
//     rename from one folder into another is carried over only with all that
//     came before it, as journals do.
//   - A file whose folder was lost is gone, however well it was synced.
//
// [FS.Kill] is what a killed process leaves: all that it wrote, and nothing
// open.
package memfs

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluiceio/sluice/services/kit/vfs"
)

var _ vfs.FS = (*FS)(nil)

// FS is the file system. Its methods may be called by several goroutines at
// once. Relative names are taken from the root.
type FS struct {
	mu   sync.RWMutex // guards everything below root too
	root *node
	// links are the changes of folder entries that are visible and not
	// durable, oldest first.
	links []link
}

// node is a file or a folder. Which one it is never changes.
type node struct {
	dir bool

	// Of a file.
	content  content
	modified time.Time
	locked   bool

	// Of a folder: what everybody sees, and what a crash cannot take.
	entries, durable map[string]*node
}

func newDir() *node {
	return &node{dir: true, entries: map[string]*node{}, durable: map[string]*node{}}
}

// New returns an empty file system.
func New() *FS {
	return &FS{root: newDir()}
}

// Crash returns the file system as it is found after a power cut at this
// moment. With a nil rng nothing unsynced survives. The old one and its open
// files stay usable and have no part in the new one.
func (f *FS) Crash(rng *rand.Rand) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	after := f.cloneLocked()
	after.crash(rng)
	return after
}

// Kill returns the file system as it is found when its process was killed at
// this moment: every write is there, no file is open and no lock is held. What
// was not synced still is not. The old one and its open files stay usable and
// have no part in the new one.
func (f *FS) Kill() *FS {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.cloneLocked()
}

// Create makes or empties a file. A new name is pending until SyncDir.
func (f *FS) Create(name string) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.makeFileLocked("open", name)
	if err != nil {
		return nil, err
	}
	n.content.truncate(0)
	n.modified = time.Now()
	return &file{fs: f, node: n, name: name, write: true}, nil
}

// Open opens a file for reading and writing.
func (f *FS) Open(name string) (vfs.File, error) { return f.open(name, true) }

// OpenRead opens a file for reading.
func (f *FS) OpenRead(name string) (vfs.File, error) { return f.open(name, false) }

func (f *FS) open(name string, write bool) (vfs.File, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.findLocked(name)
	if err == nil && n.dir {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &file{fs: f, node: n, name: name, write: write}, nil
}

// Remove removes a file or an empty folder; open files stay usable.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, base, err := f.parentLocked(name)
	if err != nil {
		return pathError("remove", name, err)
	}
	n := dir.entries[base]
	switch {
	case n == nil:
		err = fs.ErrNotExist
	case len(n.entries) > 0:
		err = syscall.ENOTEMPTY
	}
	if err != nil {
		return pathError("remove", name, err)
	}
	f.linkLocked(link{from: slot{dir, base}, node: n})
	return nil
}

// RemoveAll removes name and all below it, each entry a change of its own.
func (f *FS) RemoveAll(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, base, err := f.parentLocked(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && dir.entries[base] == nil {
		return nil
	}
	if err != nil {
		return pathError("remove", name, err)
	}
	f.removeTreeLocked(slot{dir, base})
	return nil
}

func (f *FS) removeTreeLocked(s slot) {
	n := s.dir.entries[s.name]
	for _, child := range sortedNames(n.entries) {
		f.removeTreeLocked(slot{n, child})
	}
	f.linkLocked(link{from: s, node: n})
}

// Rename moves a file or folder, as one change.
func (f *FS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.renameLocked(from, to); err != nil {
		return pathError("rename", from+" to "+to, err)
	}
	return nil
}

func (f *FS) renameLocked(from, to string) error {
	fromDir, fromBase, err := f.parentLocked(from)
	if err != nil {
		return err
	}
	n := fromDir.entries[fromBase]
	if n == nil {
		return fs.ErrNotExist
	}
	toDir, toBase, err := f.parentLocked(to)
	if err != nil {
		return err
	}
	old := toDir.entries[toBase]
	switch {
	case old == n:
		return nil
	case old != nil && old.dir:
		return fs.ErrExist
	case old != nil && n.dir:
		return syscall.ENOTDIR
	case n.dir && strings.HasPrefix(clean(to), clean(from)+"/"):
		return syscall.EINVAL
	}
	f.linkLocked(link{from: slot{fromDir, fromBase}, to: slot{toDir, toBase}, node: n})
	return nil
}

// MkdirAll makes a folder and its parents, each a change of its own.
func (f *FS) MkdirAll(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.root
	for _, base := range split(dir) {
		if !n.dir {
			return pathError("mkdir", dir, syscall.ENOTDIR)
		}
		child := n.entries[base]
		if child == nil {
			child = newDir()
			f.linkLocked(link{to: slot{n, base}, node: child})
		}
		n = child
	}
	if !n.dir {
		return pathError("mkdir", dir, syscall.ENOTDIR)
	}
	return nil
}

// List returns the names in a folder, sorted.
func (f *FS) List(dir string) ([]string, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.findDirLocked(dir)
	if err != nil {
		return nil, pathError("list", dir, err)
	}
	return sortedNames(n.entries), nil
}

// Stat tells size and kind.
func (f *FS) Stat(name string) (vfs.Info, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.findLocked(name)
	if err != nil {
		return vfs.Info{}, pathError("stat", name, err)
	}
	return vfs.Info{Size: int64(len(n.content.visible)), Modified: n.modified, Dir: n.dir}, nil
}

// SyncDir makes the pending changes of a folder's entries durable.
func (f *FS) SyncDir(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.findDirLocked(dir)
	if err != nil {
		return pathError("sync", dir, err)
	}
	f.syncDirLocked(n)
	return nil
}

// Lock takes the lock of a file until it is closed, or until the crash or kill.
func (f *FS) Lock(name string) (io.Closer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.makeFileLocked("lock", name)
	if err == nil && n.locked {
		err = pathError("lock", name, vfs.ErrLocked)
	}
	if err != nil {
		return nil, err
	}
	n.locked = true
	return &lock{fs: f, node: n, name: name}, nil
}

// makeFileLocked returns the file of this name, made if absent.
func (f *FS) makeFileLocked(op, name string) (*node, error) {
	dir, base, err := f.parentLocked(name)
	if err != nil {
		return nil, pathError(op, name, err)
	}
	n := dir.entries[base]
	if n == nil {
		n = &node{}
		f.linkLocked(link{to: slot{dir, base}, node: n})
	}
	if n.dir {
		return nil, pathError(op, name, syscall.EISDIR)
	}
	return n, nil
}

// parentLocked finds the folder that name stands in, whether or not it does.
func (f *FS) parentLocked(name string) (dir *node, base string, err error) {
	parts := split(name)
	if len(parts) == 0 {
		return nil, "", syscall.EINVAL // the root is nobody's entry
	}
	dir, err = f.walkLocked(parts[:len(parts)-1])
	if err == nil && !dir.dir {
		err = syscall.ENOTDIR
	}
	return dir, parts[len(parts)-1], err
}

func (f *FS) findDirLocked(name string) (*node, error) {
	n, err := f.findLocked(name)
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	return n, err
}

func (f *FS) findLocked(name string) (*node, error) { return f.walkLocked(split(name)) }

func (f *FS) walkLocked(parts []string) (*node, error) {
	n := f.root
	for _, base := range parts {
		if !n.dir {
			return nil, syscall.ENOTDIR
		}
		if n = n.entries[base]; n == nil {
			return nil, fs.ErrNotExist
		}
	}
	return n, nil
}

func clean(name string) string { return path.Clean("/" + name) }

func split(name string) []string {
	return strings.FieldsFunc(clean(name), func(r rune) bool { return r == '/' })
}

func sortedNames(entries map[string]*node) []string {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}
