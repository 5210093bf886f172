package raftlog

import (
	"sync"
	"sync/atomic"

	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// readState is what reads remember for those that come after. A log that sleeps
// has none.
type readState struct {
	damage atomic.Pointer[error]

	mu struct {
		sync.Mutex
		*readMemory
	}
}

type readMemory struct {
	// hints are places where a read ended: where the same consumer goes on.
	// They are below the bound of a read, so what is before them never changes.
	hints [8]hint
	next  int // the one to replace
	// checked is, by segment, a range of positions whose batches are known to be
	// good. What was written since the log was opened is read back once all the
	// same.
	checked map[int64]span
}

type hint struct {
	base     int64
	position int64
	offset   int64
	set      bool
}

// span is [from, to).
type span struct{ from, to int64 }

func (r *readState) memoryLocked() *readMemory {
	if r.mu.readMemory == nil {
		r.mu.readMemory = &readMemory{checked: map[int64]span{}}
	}
	return r.mu.readMemory
}

func (r *readState) hint(base, offset int64) (segment.At, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.memoryLocked().hints {
		if h.set && h.base == base && h.offset == offset {
			return segment.At{Position: h.position, Offset: h.offset}, true
		}
	}
	return segment.At{}, false
}

func (r *readState) remember(base int64, at segment.At) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.memoryLocked()
	m.hints[m.next] = hint{base: base, position: at.Position, offset: at.Offset, set: true}
	m.next = (m.next + 1) % len(m.hints)
}

// verified says whether the batches in a range are known to be good.
func (r *readState) verified(base, from, to int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.memoryLocked().checked[base]
	return ok && s.from <= from && to <= s.to
}

// verify adds a range to what is known to be good. Of two that do not touch it
// keeps the new one, which is where the readers are.
func (r *readState) verify(base, from, to int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.memoryLocked()
	if s, ok := m.checked[base]; ok && from <= s.to && s.from <= to {
		from, to = min(from, s.from), max(to, s.to)
	}
	m.checked[base] = span{from, to}
}

// cut forgets what a cut removes.
func (r *readState) cut(c journal.Cut) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.memoryLocked()
	m.hints = [8]hint{}
	for base, s := range m.checked {
		switch {
		case base > c.Base:
			delete(m.checked, base)
		case base == c.Base:
			m.checked[base] = span{min(s.from, c.Position), min(s.to, c.Position)}
		}
	}
}

// forget forgets all.
func (r *readState) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.readMemory = nil
}
