// Package faultfs makes any vfs.FS fail where a test says.
package faultfs

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/sluiceio/sluice/services/kit/vfs"
)

// Op is an operation of a file system or an open file.
type Op string

// The operations, one for each method.
const (
	Create    Op = "create"
	Open      Op = "open"
	OpenRead  Op = "open for reading"
	Remove    Op = "remove"
	RemoveAll Op = "remove all"
	Rename    Op = "rename"
	MkdirAll  Op = "make folders"
	List      Op = "list"
	Stat      Op = "stat"
	SyncDir   Op = "sync folder"
	Lock      Op = "lock"

	ReadAt   Op = "read"
	WriteAt  Op = "write"
	WritevAt Op = "gathered write"
	Truncate Op = "truncate"
	Datasync Op = "datasync"
	Sync     Op = "sync"
	Size     Op = "size"
	Close    Op = "close"
)

// Hook is asked before each operation; its error is the operation's, which then
// is not done. A rename is asked about by its old name, an open file by the name
// that it was opened with. It may be called by several goroutines at once.
//
// A *Short makes a write do a part. Close gives the file back whatever the hook
// says, as close(2) does.
type Hook func(op Op, name string) error

// Short is a write that stops after N bytes with Err.
type Short struct {
	N   int
	Err error
}

func (s *Short) Error() string { return s.Err.Error() }

func (s *Short) Unwrap() error { return s.Err }

// Nth fails the n-th operation of its kind, counted from 1, with err, and no
// other.
func Nth(op Op, n int64, err error) Hook {
	var count atomic.Int64
	return func(o Op, _ string) error {
		if o == op && count.Add(1) == n {
			return err
		}
		return nil
	}
}

// From fails the n-th operation of its kind, counted from 1, and all of that
// kind that come later: a disk that is full or gone.
func From(op Op, n int64, err error) Hook {
	var count atomic.Int64
	return func(o Op, _ string) error {
		if o == op && count.Add(1) >= n {
			return err
		}
		return nil
	}
}

// New returns fsys with the hook before it.
func New(fsys vfs.FS, hook Hook) vfs.FS {
	return &faulty{fs: fsys, hook: hook}
}

type faulty struct {
	fs   vfs.FS
	hook Hook
}

func (f *faulty) Create(name string) (vfs.File, error) { return f.open(Create, name, f.fs.Create) }

func (f *faulty) Open(name string) (vfs.File, error) { return f.open(Open, name, f.fs.Open) }

func (f *faulty) OpenRead(name string) (vfs.File, error) {
	return f.open(OpenRead, name, f.fs.OpenRead)
}

func (f *faulty) open(op Op, name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	if err := f.hook(op, name); err != nil {
		return nil, err
	}
	inner, err := open(name)
	if err != nil {
		return nil, err
	}
	return &file{File: inner, name: name, hook: f.hook}, nil
}

func (f *faulty) Remove(name string) error {
	if err := f.hook(Remove, name); err != nil {
		return err
	}
	return f.fs.Remove(name)
}

func (f *faulty) RemoveAll(name string) error {
	if err := f.hook(RemoveAll, name); err != nil {
		return err
	}
	return f.fs.RemoveAll(name)
}

func (f *faulty) Rename(from, to string) error {
	if err := f.hook(Rename, from); err != nil {
		return err
	}
	return f.fs.Rename(from, to)
}

func (f *faulty) MkdirAll(dir string) error {
	if err := f.hook(MkdirAll, dir); err != nil {
		return err
	}
	return f.fs.MkdirAll(dir)
}

func (f *faulty) List(dir string) ([]string, error) {
	if err := f.hook(List, dir); err != nil {
		return nil, err
	}
	return f.fs.List(dir)
}

func (f *faulty) Stat(name string) (vfs.Info, error) {
	if err := f.hook(Stat, name); err != nil {
		return vfs.Info{}, err
	}
	return f.fs.Stat(name)
}

func (f *faulty) SyncDir(dir string) error {
	if err := f.hook(SyncDir, dir); err != nil {
		return err
	}
	return f.fs.SyncDir(dir)
}

func (f *faulty) Lock(name string) (io.Closer, error) {
	if err := f.hook(Lock, name); err != nil {
		return nil, err
	}
	return f.fs.Lock(name)
}

type file struct {
	vfs.File
	name string
	hook Hook
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	if err := f.hook(ReadAt, f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	if err := f.hook(WriteAt, f.name); err != nil {
		return f.writePart(err, [][]byte{b}, off)
	}
	return f.File.WriteAt(b, off)
}

func (f *file) WritevAt(bufs [][]byte, off int64) (int, error) {
	if err := f.hook(WritevAt, f.name); err != nil {
		return f.writePart(err, bufs, off)
	}
	return f.File.WritevAt(bufs, off)
}

// writePart writes as much as a Short grants.
func (f *file) writePart(cause error, bufs [][]byte, off int64) (int, error) {
	var short *Short
	if !errors.As(cause, &short) {
		return 0, cause
	}
	var part [][]byte
	left := short.N
	for _, b := range bufs {
		b = b[:min(left, len(b))]
		part = append(part, b)
		left -= len(b)
	}
	n, err := f.File.WritevAt(part, off)
	if err != nil {
		return n, err
	}
	return n, cause
}

func (f *file) Truncate(size int64) error {
	if err := f.hook(Truncate, f.name); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *file) Datasync() error {
	if err := f.hook(Datasync, f.name); err != nil {
		return err
	}
	return f.File.Datasync()
}

func (f *file) Sync() error {
	if err := f.hook(Sync, f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *file) Size() (int64, error) {
	if err := f.hook(Size, f.name); err != nil {
		return 0, err
	}
	return f.File.Size()
}

func (f *file) Close() error {
	err := f.hook(Close, f.name)
	return errors.Join(err, f.File.Close())
}
