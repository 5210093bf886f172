package binproto

import (
	"context"
	"sync"
)

// maxBacklog is how many bytes of answers to reads one connection may have under
// way, unless it is one answer alone: as much as 32 requests of 1 MiB. Of larger
// ones fewer run at once.
const maxBacklog = 32 << 20

// A backlog counts the bytes of answers that a client has not taken yet.
type backlog struct {
	// Gets a value when there is room. Capacity 1: one goroutine waits.
	room chan struct{}

	mu struct {
		sync.Mutex
		bytes int64
	}
}

// enter waits until there is room for an answer, and takes it. It is false when
// ctx ended before.
func (b *backlog) enter(ctx context.Context, n int64) bool {
	for {
		b.mu.Lock()
		fits := b.mu.bytes == 0 || b.mu.bytes+n <= maxBacklog
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
