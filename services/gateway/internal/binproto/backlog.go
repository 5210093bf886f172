package binproto

import (
	"context"
	"sync"
)

// A backlog counts bytes that one connection has under way, so that no connection
// takes all that is there for all: of large requests fewer than 32 run at once.
type backlog struct {
	most int64
	// Gets a value when there is room. Capacity 1: one goroutine waits.
	room chan struct{}

	mu struct {
		sync.Mutex
		bytes int64
	}
}

// enter waits until there is room for so many bytes, or nothing else under way,
// and takes it. It is false when ctx ended before.
func (b *backlog) enter(ctx context.Context, n int64) bool {
	for {
		b.mu.Lock()
		fits := b.mu.bytes == 0 || b.mu.bytes+n <= b.most
		if fits {
			b.mu.bytes += n
		}
		b.mu.Unlock()
		if fits {
			return true
		}
		select {
		case <-b.room:
		case <-ctx.Done():
			return false
		}
	}
}

// add takes room without asking.
func (b *backlog) add(n int64) {
	b.mu.Lock()
	b.mu.bytes += n
	b.mu.Unlock()
}

// holds says whether anything is under way.
func (b *backlog) holds() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.bytes > 0
}

// leave gives room back.
func (b *backlog) leave(n int64) {
	b.mu.Lock()
	b.mu.bytes -= n
	b.mu.Unlock()
	select {
	case b.room <- struct{}{}:
	default:
	}
}
