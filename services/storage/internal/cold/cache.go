package cold

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/sluiceio/sluice/services/kit/confine"
)

// blockKey names a block of an object.
type blockKey struct {
	object string
	number int64 // indexBlock is the object's index
}

const indexBlock = -1

// block is a part of an object that is in memory, or on its way.
type block struct {
	key blockKey
	// done is closed when bytes and err are set.
	done  chan struct{}
	bytes []byte
	err   error

	// Guarded by the cache. waiting counts those who need it while it is on its
	// way; when the last goes, cancel ends the fetch.
	waiting int
	cancel  context.CancelFunc
	element *list.Element // once it is there
	// unwaited tells that who asked for it comes back.
	unwaited bool
}

// failure is why a block did not come.
type failure struct {
	err error
	at  time.Time
}

// mostFailed bounds the blocks of which it is known why they did not come, and
// failedFor how long that is told.
const (
	mostFailed = 256
	failedFor  = 5 * time.Second
)

// cache keeps blocks up to a number of bytes, those used last, and lets each be
// fetched once at a time. What is on its way is bounded by those who fetch.
type cache struct {
	most int64

	mu struct {
		sync.Mutex
		blocks map[blockKey]*block
		used   *list.List // of *block; the most recently used first
		bytes  int64
		ended  bool
		// failed has why blocks did not come that nobody waited for, until one asks
		// or another comes.
		failed map[blockKey]failure
	}
	// running ends with the cache, and all fetches with it.
	running context.Context
	stop    context.CancelFunc
	fetches sync.WaitGroup
}

func newCache(most int64) *cache {
	c := &cache{most: most}
	c.running, c.stop = context.WithCancel(context.Background())
	c.mu.blocks = map[blockKey]*block{}
	c.mu.used = list.New()
	c.mu.failed = map[blockKey]failure{}
	return c
}

// get returns a block, from memory or by fetch, which runs under a context that
// ends when nobody waits for it any more. The bytes must not be changed.
func (c *cache) get(ctx context.Context, key blockKey, fetch func(context.Context) ([]byte, error)) ([]byte, error) {
	b := c.join(key, fetch)
	if b == nil {
		return nil, ErrUnavailable
	}
	defer c.leave(b)
	select {
	case <-b.done:
		return b.bytes, b.err
	case <-ctx.Done():
		return nil, waited(ctx)
	}
}

// ahead has a block fetched that nobody waits for yet.
func (c *cache) ahead(key blockKey, fetch func(context.Context) ([]byte, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.blocks[key] == nil && !c.mu.ended {
		// The fetch itself waits for it.
		c.startLocked(key, fetch)
	}
}

// now returns a block that is there. ErrPending has another one fetched; why that did
// not come the next caller is told, once.
func (c *cache) now(key blockKey, fetch func(context.Context) ([]byte, error)) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.mu.blocks[key]
	if b != nil && b.element != nil {
		c.mu.used.MoveToFront(b.element)
		return b.bytes, nil
	}
	if failed, ok := c.mu.failed[key]; ok {
		delete(c.mu.failed, key)
		if time.Since(failed.at) < failedFor {
			return nil, failed.err
		}
	}
	switch {
	case c.mu.ended:
		return nil, ErrUnavailable
	case b == nil:
		c.startLocked(key, fetch).unwaited = true
	}
	return nil, ErrPending
}

// ready tells whether a block can be had without waiting.
func (c *cache) ready(key blockKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.mu.blocks[key]
	return b != nil && b.element != nil
}

// has tells whether a block is there, or on its way.
func (c *cache) has(key blockKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.blocks[key] != nil
}

// join returns a block with the caller among those who wait for it; nil once the
// cache has ended.
func (c *cache) join(key blockKey, fetch func(context.Context) ([]byte, error)) *block {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.mu.blocks[key]
	switch {
	case c.mu.ended:
		return nil
	case b == nil:
		b = c.startLocked(key, fetch)
	case b.element != nil:
		c.mu.used.MoveToFront(b.element)
		return b
	default:
		b.waiting++
		b.unwaited = false // the caller will be told
	}
	return b
}

// startLocked has a block fetched, with one who waits for it.
func (c *cache) startLocked(key blockKey, fetch func(context.Context) ([]byte, error)) *block {
	ctx, cancel := context.WithCancel(c.running)
	b := &block{key: key, done: make(chan struct{}), cancel: cancel, waiting: 1}
	c.mu.blocks[key] = b
	c.fetches.Go(func() {
		defer cancel()
		var bytes []byte
		err := confine.Catch(func() (err error) {
			bytes, err = fetch(ctx)
			return err
		})
		c.fetched(b, bytes, err)
	})
	return b
}

func (c *cache) fetched(b *block, bytes []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b.bytes, b.err = bytes, err
	close(b.done)
	if c.mu.blocks[b.key] != b {
		return // dropped meanwhile
	}
	if err != nil {
		delete(c.mu.blocks, b.key)
		if b.unwaited && len(c.mu.failed) < mostFailed {
			c.mu.failed[b.key] = failure{err, time.Now()}
		}
		return
	}
	clear(c.mu.failed)
	b.element = c.mu.used.PushFront(b)
	c.mu.bytes += int64(len(bytes))
	for e := c.mu.used.Back(); e != nil && c.mu.bytes > c.most; e = c.mu.used.Back() {
		c.removeLocked(e.Value.(*block))
	}
}

func (c *cache) removeLocked(b *block) {
	if b.element != nil {
		c.mu.used.Remove(b.element)
		c.mu.bytes -= int64(len(b.bytes))
		b.element = nil
	}
	delete(c.mu.blocks, b.key)
}

// leave takes the caller out of those who wait.
func (c *cache) leave(b *block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.waiting--; b.waiting > 0 {
		return
	}
	select {
	case <-b.done:
	default:
		b.cancel()
		// Who comes now has it fetched anew.
		if c.mu.blocks[b.key] == b {
			delete(c.mu.blocks, b.key)
		}
	}
}

// drop forgets the blocks of an object.
func (c *cache) drop(object string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, b := range c.mu.blocks {
		if key.object == object {
			c.removeLocked(b)
		}
	}
}

// end ends all fetches and returns when they have ended.
func (c *cache) end() {
	c.mu.Lock()
	c.mu.ended = true
	c.mu.Unlock()
	c.stop()
	c.fetches.Wait()
}
