// Package dir keeps objects as files in a folder: of a local disk, or of a file
// system that several machines mount.
//
//	<root>/
//	  topic/0/segment      an object: the file of its name
//	  ~partial/            what no object's name can be
//	    <random>/          of one process
//	      lock             held while the process lives
//	      1, 2, …          objects that are being written
//
// A Put writes and syncs a file under ~partial, renames it to its name and syncs
// every folder on the way there. So an object is there wholly or not at all, and
// for good once Put returns. What a crash leaves lies under ~partial in a folder
// that nobody holds the lock of, and goes when another process begins to write.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"syscall"

	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/kit/vfs"
)

// Store is a folder.
type Store struct {
	fs    vfs.FS
	root  string
	space *workspace
}

var _ blob.Store = (*Store)(nil)

// New returns a store in a folder, which it does not look at yet: the folder is
// made with the first object. Close gives back what writing took.
func New(fsys vfs.FS, root string) *Store {
	root = path.Clean(filepath.ToSlash(root))
	return &Store{fs: fsys, root: root, space: newWorkspace(fsys, root)}
}

// Close ends writing. There may be none under way.
func (s *Store) Close() error { return s.space.close() }

func (s *Store) path(name string) string { return path.Join(s.root, name) }

// maxRenames is how often a Put tries to get its file to its name: whoever deletes
// the last object of a folder takes the folder along.
const maxRenames = 10

// Put writes an object.
func (s *Store) Put(ctx context.Context, name string, src io.ReaderAt, size int64, crc32c uint32) error {
	if err := blob.CheckName(name); err != nil {
		return err
	}
	if err := s.put(ctx, name, blob.NewChecked(ctx, src, 0, size, crc32c)); err != nil {
		return fmt.Errorf("store object %s: %w", name, err)
	}
	return nil
}

func (s *Store) put(ctx context.Context, name string, src io.Reader) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	temporary, err := s.space.file()
	if err != nil {
		return err
	}
	f, err := s.fs.Create(temporary)
	if absent(err) {
		// Somebody cleaned up who took this process for dead.
		return errors.Join(err, s.space.close())
	}
	if err != nil {
		return err
	}
	if err := write(f, src); err != nil {
		return errors.Join(err, ignoreAbsent(s.fs.Remove(temporary)))
	}
	for try := 1; ; try++ {
		err := s.fs.MkdirAll(path.Dir(s.path(name)))
		if err == nil {
			err = s.fs.Rename(temporary, s.path(name))
		}
		if err == nil {
			return s.syncFolders(name)
		}
		if try == maxRenames || !absent(err) {
			return errors.Join(err, ignoreAbsent(s.fs.Remove(temporary)))
		}
	}
}

// copyBytes is how much is written between two looks at the context.
const copyBytes = 1 << 20

// write fills a file, syncs and closes it.
func write(f vfs.File, src io.Reader) (err error) {
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.CopyBuffer(io.NewOffsetWriter(f, 0), src, make([]byte, copyBytes)); err != nil {
		return err
	}
	return f.Sync()
}

// syncFolders makes a name durable. A folder on its way may have been made by
// somebody who died before it was synced, so all of them are.
func (s *Store) syncFolders(name string) error {
	for folder := s.path(name); folder != s.root; {
		folder = path.Dir(folder)
		if err := s.fs.SyncDir(folder); err != nil {
			return err
		}
	}
	return nil
}

// ReadAt reads from an object.
func (s *Store) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if err := blob.CheckName(name); err != nil {
		return 0, err
	}
	n, err := s.readAt(ctx, name, p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("read object %s: %w", name, err)
	}
	return n, err
}

func (s *Store) readAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, fmt.Errorf("offset %d, expected 0 or more", off)
	}
	info, err := s.fs.Stat(s.path(name))
	if absent(err) || err == nil && info.Dir {
		return 0, blob.ErrNotFound
	}
	if err != nil || len(p) == 0 {
		return 0, err
	}
	f, err := s.fs.OpenRead(s.path(name))
	if absent(err) {
		return 0, blob.ErrNotFound
	}
	if err != nil {
		return 0, err
	}
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		err = nil
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return n, err
}

// Delete removes an object, durably, and the folders that it leaves empty.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := blob.CheckName(name); err != nil {
		return err
	}
	if err := s.remove(ctx, name); err != nil {
		return fmt.Errorf("delete object %s: %w", name, err)
	}
	return nil
}

func (s *Store) remove(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	file := s.path(name)
	info, err := s.fs.Stat(file)
	if absent(err) || err == nil && info.Dir {
		return nil
	}
	if err == nil {
		err = ignoreAbsent(s.fs.Remove(file))
	}
	if err != nil {
		return err
	}
	folder := path.Dir(file)
	for folder != s.root && s.fs.Remove(folder) == nil {
		folder = path.Dir(folder)
	}
	for {
		// Others may be at it too, and have taken more folders away.
		err := s.fs.SyncDir(folder)
		if !absent(err) || folder == s.root {
			return ignoreAbsent(err)
		}
		folder = path.Dir(folder)
	}
}

// absent says that a file is not there, or that what should be its folder is a
// file.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

func ignoreAbsent(err error) error {
	if absent(err) {
		return nil
	}
	return err
}
