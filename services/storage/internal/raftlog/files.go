package raftlog

import (
	"container/list"
	"sync"

	"github.com/sluiceio/sluice/services/kit/vfs"
)

// FileCache holds the files that readers have open, over all logs of a node, and
// closes the ones not used for longest beyond a bound. A file that is deleted
// stays readable for whoever holds it.
type FileCache struct {
	most int

	mu struct {
		sync.Mutex
		open map[fileKey]*list.Element // of *sharedFile
		used *list.List                // the most recently used first
	}
}

// fileKey names a file without building its path.
type fileKey struct {
	log   *Log
	base  int64
	index bool
}

// sharedFile is an open file with a count of those who use it. refs and dropped
// are guarded by the cache.
type sharedFile struct {
	vfs.File
	key     fileKey
	refs    int
	dropped bool // no longer in the cache: the last user closes it
}

// NewFileCache returns a cache that keeps up to so many files open. Files in use are
// never closed, so it has more open for as long as more are in use.
func NewFileCache(most int) *FileCache {
	c := &FileCache{most: most}
	c.mu.open = map[fileKey]*list.Element{}
	c.mu.used = list.New()
	return c
}

// acquire returns a file that is open, or opens it. The caller must release it.
func (c *FileCache) acquire(key fileKey, open func() (vfs.File, error)) (*sharedFile, error) {
	if f := c.find(key); f != nil {
		return f, nil
	}
	file, err := open()
	if err != nil {
		return nil, err
	}
	f, spare := c.add(&sharedFile{File: file, key: key, refs: 1})
	closeFiles(spare)
	return f, nil
}

func (c *FileCache) find(key fileKey) *sharedFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.findLocked(key)
}

func (c *FileCache) findLocked(key fileKey) *sharedFile {
	e := c.mu.open[key]
	if e == nil {
		return nil
	}
	c.mu.used.MoveToFront(e)
	f := e.Value.(*sharedFile)
	f.refs++
	return f
}

// add keeps a file, unless another caller was faster, and returns the files to
// close.
func (c *FileCache) add(f *sharedFile) (kept *sharedFile, spare []*sharedFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.findLocked(f.key); other != nil {
		return other, []*sharedFile{f}
	}
	c.mu.open[f.key] = c.mu.used.PushFront(f)
	return f, c.evictLocked()
}

func (c *FileCache) evictLocked() (spare []*sharedFile) {
	for e := c.mu.used.Back(); e != nil && c.mu.used.Len() > c.most; {
		before := e.Prev()
		if f := e.Value.(*sharedFile); f.refs == 0 {
			c.removeLocked(e)
			spare = append(spare, f)
		}
		e = before
	}
	return spare
}

func (c *FileCache) removeLocked(e *list.Element) {
	f := c.mu.used.Remove(e).(*sharedFile)
	delete(c.mu.open, f.key)
	f.dropped = true
}

// release gives a file back.
func (c *FileCache) release(f *sharedFile) {
	if c.unref(f) {
		closeFiles([]*sharedFile{f})
	}
}

func (c *FileCache) unref(f *sharedFile) (last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.refs--
	return f.dropped && f.refs == 0
}

// drop forgets files, which are closed when their last user is done.
func (c *FileCache) drop(keys ...fileKey) {
	closeFiles(c.take(keys))
}

func (c *FileCache) take(keys []fileKey) (idle []*sharedFile) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		e := c.mu.open[key]
		if e == nil {
			continue
		}
		c.removeLocked(e)
		if f := e.Value.(*sharedFile); f.refs == 0 {
			idle = append(idle, f)
		}
	}
	return idle
}

// Len is the number of files open.
func (c *FileCache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.used.Len()
}

// closeFiles closes files that were open for reading, which cannot lose
// anything.
func closeFiles(files []*sharedFile) {
	for _, f := range files {
		_ = f.Close()
	}
}
