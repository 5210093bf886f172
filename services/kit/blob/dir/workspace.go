package dir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"sync"

	"github.com/sluiceio/sluice/services/kit/vfs"
)

const (
	// partial is where objects are written. No object is called so.
	partial = "~partial"
	lock    = "lock"
)

// workspace is where one process writes objects before they have their names.
type workspace struct {
	fs   vfs.FS
	root string

	mu struct {
		sync.Mutex
		// lock is nil while there is no folder; opening one is tried again with
		// each file.
		lock   io.Closer
		folder string
		files  int64
	}
}

func newWorkspace(fsys vfs.FS, root string) *workspace { return &workspace{fs: fsys, root: root} }

// file returns the path of a file that is not there yet.
func (w *workspace) file() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.lock == nil {
		if err := w.openLocked(); err != nil {
			return "", fmt.Errorf("make %s: %w", path.Join(w.root, partial), err)
		}
	}
	w.mu.files++
	return path.Join(w.mu.folder, strconv.FormatInt(w.mu.files, 10)), nil
}

func (w *workspace) openLocked() error {
	if err := w.makeRoot(); err != nil {
		return err
	}
	folder := path.Join(w.root, partial, rand.Text())
	if err := w.fs.MkdirAll(folder); err != nil {
		return err
	}
	held, err := w.fs.Lock(path.Join(folder, lock))
	if err != nil {
		return errors.Join(err, w.fs.RemoveAll(folder))
	}
	w.mu.lock, w.mu.folder = held, folder
	return w.cleanLocked()
}

// makeRoot makes the root durable with the folders above it that are missing.
func (w *workspace) makeRoot() error {
	missing := w.root
	for missing != path.Dir(missing) {
		if _, err := w.fs.Stat(missing); !absent(err) {
			break
		}
		missing = path.Dir(missing)
	}
	if err := w.fs.MkdirAll(w.root); err != nil {
		return err
	}
	for folder := w.root; folder != missing; {
		folder = path.Dir(folder)
		if err := w.fs.SyncDir(folder); err != nil {
			return err
		}
	}
	return nil
}

// cleanLocked removes what processes left that are gone.
func (w *workspace) cleanLocked() error {
	all, err := w.fs.List(path.Join(w.root, partial))
	if err != nil {
		return err
	}
	for _, name := range all {
		folder := path.Join(w.root, partial, name)
		if folder == w.mu.folder {
			continue
		}
		held, err := w.fs.Lock(path.Join(folder, lock))
		if errors.Is(err, vfs.ErrLocked) || absent(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := errors.Join(w.fs.RemoveAll(folder), held.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (w *workspace) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.lock == nil {
		return nil
	}
	err := errors.Join(w.fs.RemoveAll(w.mu.folder), w.mu.lock.Close())
	w.mu.lock = nil
	return err
}
