// Package vfs is the part of a file system that a durable log needs, behind an
// interface, so that crashes and I/O errors can be scripted.
//
// What a write promises is what POSIX promises: bytes and folder entries are
// visible to all at once, and survive a crash only after the matching sync. A
// file's bytes need File.Datasync (or Sync); its name needs SyncDir of its
// folder. [OS] is the real file system; vfs/memfs is one in memory that can
// crash.
package vfs

import (
	"errors"
	"io"
	"time"
)

// ErrLocked is what FS.Lock returns while another holder has the lock.
var ErrLocked = errors.New("locked by another holder")

// File is an open file. Methods may be called by several goroutines at once;
// writes that overlap are the caller's business.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer

	// WritevAt writes the buffers one after the other at off, as one write
	// where the system can. It returns the number of bytes written, and an
	// error whenever that is less than all.
	WritevAt(bufs [][]byte, off int64) (int, error)

	// Truncate cuts or extends (with zeros) the file to size bytes.
	Truncate(size int64) error

	// Datasync makes bytes and size durable (fdatasync).
	Datasync() error

	// Sync makes bytes and all metadata durable (fsync). The file's name is
	// not part of it; see FS.SyncDir.
	Sync() error

	// Size returns the file's current length in bytes.
	Size() (int64, error)
}

// FS is a file system. Names are slash-separated paths as package os takes
// them. Errors match fs.ErrNotExist, fs.ErrExist and so on with errors.Is.
type FS interface {
	// Create makes or empties a file and opens it for reading and writing.
	Create(name string) (File, error)

	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)

	// OpenRead opens an existing file for reading.
	OpenRead(name string) (File, error)

	// Remove removes a file or an empty folder.
	Remove(name string) error

	// RemoveAll removes name and all below it; absent is no error.
	RemoveAll(name string) error

	// Rename moves a file or folder, replacing a file of the new name.
	Rename(from, to string) error

	// MkdirAll makes a folder and its parents. Parents that it makes are not
	// synced.
	MkdirAll(dir string) error

	// List returns the names in a folder, sorted.
	List(dir string) ([]string, error)

	// Stat tells a file's size and kind without opening it.
	Stat(name string) (Info, error)

	// SyncDir makes a folder's entries durable.
	SyncDir(dir string) error

	// Lock takes an exclusive lock on a file, which it makes if absent. It
	// returns ErrLocked when another holder, in this process or another, has
	// it. Closing gives it back.
	Lock(name string) (io.Closer, error)
}

// Info is what Stat tells.
type Info struct {
	// Size and Modified are those of a file: when it was last written or cut. A
	// crash may leave either time.
	Size     int64
	Modified time.Time
	Dir      bool
}
