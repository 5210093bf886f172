package raftlog

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// An index that is written anew has this name until it is whole.
const newIndexSuffix = segment.IndexSuffix + ".new"

// rebuildIndex derives the index file of a segment from its log file. It covers
// what s covers. If the segment is active and grew meanwhile, entries may be
// missing after that, which costs a walk and nothing else.
func (l *Log) rebuildIndex(s journal.Segment) error {
	l.rebuild.Lock()
	defer l.rebuild.Unlock()
	entries, err := l.deriveIndex(s)
	if err != nil {
		return err
	}
	// From here on the owner must not add to the file that goes.
	l.tail.file.Lock()
	defer l.tail.file.Unlock()
	if err := l.replaceIndex(s, entries); err != nil {
		return err
	}
	l.o.Files.drop(fileKey{l, s.Base, true})
	l.tail.replacedLocked(s, len(entries))
	return nil
}

func (l *Log) replaceIndex(s journal.Segment, entries []segment.IndexEntry) error {
	name := l.name(segment.IndexName(s.Base))
	temporary := strings.TrimSuffix(name, segment.IndexSuffix) + newIndexSuffix
	f, err := l.o.FS.Create(temporary)
	if err != nil {
		return fmt.Errorf("create index: %w", err)
	}
	err = writeIndex(f, indexOf(s), 0, entries, true)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := l.o.FS.Rename(temporary, name); err != nil {
		return fmt.Errorf("replace index: %w", err)
	}
	return nil
}

// deriveIndex walks a segment.
func (l *Log) deriveIndex(s journal.Segment) ([]segment.IndexEntry, error) {
	f, err := l.openLog(s.Base)
	if err != nil {
		return nil, err
	}
	defer l.o.Files.release(f)
	t := journal.Table{Entries: l.entriesNow()}
	b := segment.NewIndexBuilder(indexOf(s), l.o.Limits().IndexInterval, 0, -1, -1)
	var entries []segment.IndexEntry
	between := uint64(0)
	_, err = walk(f, s, startOf(s), func(batch segment.Batch) bool {
		index := t.BatchIndex(batch.Index + between)
		between, batch.Index = index-batch.Index, index
		if e, due := b.Add(batch); due {
			entries = append(entries, e)
		}
		return true
	})
	return entries, err
}

// entriesNow are the entries that are no batch. What is added later is not in
// the slice, and nothing in it changes.
func (l *Log) entriesNow() []journal.Entry {
	l.view.RLock()
	defer l.view.RUnlock()
	return l.view.table.Entries
}
