package raftlog

import (
	"fmt"

	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// full says whether the active segment is to be sealed before a batch of n bytes
// with a raft index.
func (l *Log) full(limits Limits, nowMs, n int64, index uint64) bool {
	a := l.active()
	if a.Size == 0 {
		return false
	}
	next := segment.At{Position: a.Size, Offset: a.NextOffset, Index: index}
	return a.Size+n > limits.SegmentBytes ||
		nowMs-a.FirstAppendMs >= limits.SegmentMs ||
		!indexOf(*a).Fits(next)
}

// roll seals the active segment and starts another, whose first entry will have
// a raft index.
//
// The new file and its name are durable before the journal speaks of it, so a
// segment in the journal without a file is a lost one, and an empty file that
// the journal does not know is one that never began.
func (l *Log) roll(firstIndex uint64) error {
	if err := l.settle(true); err != nil {
		return err
	}
	sealed := *l.active()
	f, err := l.o.FS.Create(l.name(segment.LogName(sealed.NextOffset)))
	if err != nil {
		return fmt.Errorf("create segment: %w", err)
	}
	if err := l.syncDir(); err != nil {
		_ = f.Close() // it is empty
		return err
	}
	if err := l.append(journal.SegmentStart(sealed, firstIndex)); err != nil {
		_ = f.Close() // it is empty
		return err
	}
	l.writer = l.newWriter(f, l.active())
	l.startIndex(0, 0)
	return nil
}

// settle cuts the zeros off the active segment, files its index, synced or not,
// and closes it.
func (l *Log) settle(sync bool) error {
	if err := l.wake(); err != nil {
		return err
	}
	if err := l.writer.Cut(); err != nil {
		return err
	}
	if l.tail.loaded {
		if err := l.flushIndex(sync); err != nil {
			return err
		}
	}
	l.tail.unload()
	return l.closeWriter()
}

// unload forgets the index of the active segment, all of which is in its file.
func (x *indexTail) unload() {
	x.loaded = false
	x.reset(-1)
}
