// Package blob is object storage as the services see it: whole objects, written
// once, read by range. What an object is called and holds is its owner's business.
package blob

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// ErrNotFound says that there is no object of that name. It is the only error
// that a caller can conclude something from: every other one may hide an
// operation that was done.
var ErrNotFound = errors.New("no such object")

// ErrChecksum says that the bytes that a Put read do not have the checksum that it
// was given: they were spoilt before they came to the store.
var ErrChecksum = errors.New("the bytes do not have the checksum that was given")

// Info describes an object.
type Info struct {
	Name     string
	Size     int64 // bytes
	Modified time.Time
}

// Store keeps objects by name. Names are paths of at most 512 bytes: segments of
// letters, digits and "-_.", separated by single slashes, none of them "." or
// ".."; any other is ErrInvalidName. No object has the name of a folder of
// another: what is a file system underneath cannot keep both. All methods may be
// called concurrently, do I/O, and end when ctx does.
type Store interface {
	// Put writes an object of size bytes, which it reads from src, once or more
	// often. crc32c is the Castagnoli checksum of these bytes; a Put whose bytes
	// do not have it fails, wherever they were spoilt on the way. An object is
	// there wholly or not at all, and is durable when Put returns nil. One of the
	// same name is replaced. The bytes of a Put that fails may be there all the
	// same, but only wholly.
	Put(ctx context.Context, name string, src io.ReaderAt, size int64, crc32c uint32) error
	// ReadAt fills p with the object's bytes from off on. It returns fewer, with
	// io.EOF, only where the object ends. ErrNotFound when there is none.
	ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error)
	// Delete removes the object. It is no error if there is none.
	Delete(ctx context.Context, name string) error
	// List yields the objects whose names start with prefix, in the order of
	// their names. An error ends it, and stands beside a zero Info.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
}
