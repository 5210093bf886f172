package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"sync"

	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// An index file is written once so many entries wait.
const indexFlush = 128

// indexTail is the index of the active segment that is not in its file yet, and
// what is needed to go on with it.
type indexTail struct {
	// file is held while the active segment's index file is written or
	// replaced, and guards filed. Lock order: file, mu.
	file  sync.Mutex
	filed int // entries in the file

	mu struct {
		sync.Mutex
		base    int64 // of the active segment; -1 while the tail is not loaded
		waiting []segment.IndexEntry
	}

	// Owner only. loaded says that builder and filed are those of the active
	// segment; a log that sleeps need not know them.
	loaded  bool
	builder segment.IndexBuilder
}

func indexOf(s journal.Segment) segment.IndexOf {
	return segment.IndexOf{Base: s.Base, FirstIndex: s.FirstIndex, Generation: s.Generation}
}

// startIndex begins the index of an active segment at its end, after n entries
// in the file of which the last is at a position.
func (l *Log) startIndex(filed int, last int64) {
	a := l.active()
	l.tail.file.Lock()
	defer l.tail.file.Unlock()
	l.tail.loaded, l.tail.filed = true, filed
	l.tail.builder = segment.NewIndexBuilder(indexOf(*a), l.o.Limits().IndexInterval, last, a.MaxTimestamp, a.MaxTimestampOffset)
	l.tail.reset(a.Base)
}

func (x *indexTail) reset(base int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.base, x.mu.waiting = base, nil
}

func (x *indexTail) add(e segment.IndexEntry) (waiting int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.waiting = append(x.mu.waiting, e)
	return len(x.mu.waiting)
}

// find looks for the last waiting entry of a segment that is before a place.
func (x *indexTail) find(base int64, before func(segment.IndexEntry) bool) (segment.IndexEntry, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.mu.base != base {
		return segment.IndexEntry{}, false
	}
	n := sort.Search(len(x.mu.waiting), func(i int) bool { return !before(x.mu.waiting[i]) })
	if n == 0 {
		return segment.IndexEntry{}, false
	}
	return x.mu.waiting[n-1], true
}

// loadIndex finds out where the active segment's index ends, for a log that
// goes on with one. The file is derived, so what is wrong with it only means
// that it begins anew.
func (l *Log) loadIndex() error {
	if l.tail.loaded {
		return nil
	}
	a := *l.active()
	filed, last := 0, int64(0)
	e, i, err := l.lastFiled(a, func(e segment.IndexEntry) bool { return e.Position < a.Size })
	switch {
	case errors.Is(err, segment.ErrBadIndex):
		if err := l.removeIndex(a.Base); err != nil {
			return err
		}
	case err != nil:
		return err
	case i >= 0:
		filed, last = i+1, e.Position
		if err := l.cutIndex(a.Base, filed); err != nil {
			return err
		}
	}
	l.startIndex(filed, last)
	return nil
}

// replacedLocked says that a file with n entries, which cover what s covers, has
// replaced the segment's.
func (x *indexTail) replacedLocked(s journal.Segment, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.mu.base != s.Base {
		return
	}
	x.filed = n
	covered := sort.Search(len(x.mu.waiting), func(i int) bool { return x.mu.waiting[i].Position >= s.Size })
	x.mu.waiting = x.mu.waiting[covered:]
}

// flushIndex writes the waiting entries to the file.
func (l *Log) flushIndex(sync bool) error {
	l.tail.file.Lock()
	defer l.tail.file.Unlock()
	waiting := l.tail.copyWaiting()
	if len(waiting) == 0 {
		return nil
	}
	of := l.tail.builder.Of
	open := l.o.FS.Open
	if l.tail.filed == 0 {
		open = l.o.FS.Create
	}
	f, err := open(l.name(segment.IndexName(of.Base)))
	if err != nil {
		return fmt.Errorf("open index: %w", err)
	}
	err = writeIndex(f, of, l.tail.filed, waiting, sync)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	l.tail.filed += len(waiting)
	l.tail.reset(of.Base)
	return nil
}

func (x *indexTail) copyWaiting() []segment.IndexEntry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]segment.IndexEntry(nil), x.mu.waiting...)
}

// writeIndex writes entries to a file that has so many already.
func writeIndex(f vfs.File, of segment.IndexOf, filed int, entries []segment.IndexEntry, sync bool) error {
	at := int64(0)
	if filed > 0 {
		at = segment.IndexSize(filed)
	}
	if _, err := f.WriteAt(of.AppendIndex(nil, filed == 0, entries), at); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	if !sync {
		return nil
	}
	if err := f.Datasync(); err != nil {
		return fmt.Errorf("%w: index: %w", errSync, err)
	}
	return nil
}

// cutIndex keeps the first n entries of an index file, durably: an entry of what
// was cut must not come back beside what is written then.
func (l *Log) cutIndex(base int64, n int) error {
	if n == 0 {
		return l.removeIndex(base)
	}
	f, err := l.o.FS.Open(l.name(segment.IndexName(base)))
	if err != nil {
		return fmt.Errorf("open index: %w", err)
	}
	return errors.Join(truncateIndex(f, n), f.Close())
}

func truncateIndex(f vfs.File, n int) error {
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("size of index: %w", err)
	}
	if size == segment.IndexSize(n) {
		return nil
	}
	if err := f.Truncate(segment.IndexSize(n)); err != nil {
		return fmt.Errorf("cut index: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("%w: index: %w", errSync, err)
	}
	return nil
}

// removeIndex removes an index file, durably, if there is one.
func (l *Log) removeIndex(base int64) error {
	l.o.Files.drop(fileKey{l, base, true})
	err := l.o.FS.Remove(l.name(segment.IndexName(base)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove index: %w", err)
	}
	return l.syncDir()
}

// openIndex opens the index file of a segment to read; nil if there is none. The
// caller releases the file.
func (l *Log) openIndex(s journal.Segment) (*sharedFile, segment.IndexReader, error) {
	f, err := l.o.Files.acquire(fileKey{l, s.Base, true}, func() (vfs.File, error) {
		f, err := l.o.FS.OpenRead(l.name(segment.IndexName(s.Base)))
		if err != nil {
			return nil, fmt.Errorf("open index: %w", err)
		}
		if err := (segment.IndexReader{Of: indexOf(s), R: f}).CheckHead(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, segment.IndexReader{}, nil
	}
	if err != nil {
		return nil, segment.IndexReader{}, err
	}
	size, err := f.Size()
	if err != nil {
		l.o.Files.release(f)
		return nil, segment.IndexReader{}, fmt.Errorf("size of index: %w", err)
	}
	return f, segment.IndexReader{Of: indexOf(s), R: f, N: segment.IndexLen(size)}, nil
}

// lastFiled looks for the last entry in a segment's index file that is before a
// place.
func (l *Log) lastFiled(s journal.Segment, before func(segment.IndexEntry) bool) (segment.IndexEntry, int, error) {
	f, reader, err := l.openIndex(s)
	if f == nil || err != nil {
		return segment.IndexEntry{}, -1, err
	}
	defer l.o.Files.release(f)
	return reader.Last(before)
}
