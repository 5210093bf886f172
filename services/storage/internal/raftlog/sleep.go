package raftlog

import (
	"github.com/sluiceio/sluice/services/storage/internal/journal"
)

// Sleep writes a point, cuts the zeros off the active segment, and gives back
// all handles and nearly all memory; the next Write or Read takes them again. An
// Open after a Sleep reads no record. Owner only.
func (l *Log) Sleep(p Point) error {
	record, err := l.pointRecord(p)
	if err != nil {
		return err
	}
	if l.rests() && p.Applied == l.table().Applied {
		l.closeFiles()
		return nil
	}
	return l.fail(l.rest(record))
}

// rests says that nothing was written since the last Sleep or clean stop.
func (l *Log) rests() bool { return l.table().Clean && l.writer == nil }

func (l *Log) rest(point journal.Record) error {
	if err := l.settle(false); err != nil {
		return err
	}
	if err := l.compactJournal(); err != nil {
		return err
	}
	if err := l.append(point, journal.Checkpoint(*l.active())); err != nil {
		return err
	}
	l.closeFiles()
	return nil
}

// closeFiles gives back handles and memory. Everything is synced.
func (l *Log) closeFiles() {
	if l.journal != nil {
		l.journal.Sleep()
	}
	keys := make([]fileKey, 0, 2*len(l.table().Segments))
	for _, s := range l.table().Segments {
		keys = append(keys, fileKey{l, s.Base, false}, fileKey{l, s.Base, true})
	}
	l.o.Files.drop(keys...)
	l.recent = recent{}
	l.payloads = nil
	l.reads.forget()
}

// Close closes the log. With a point it is a clean stop: the next Open reads no
// record, and the active segment is cut to size. Readers get ErrClosed from then
// on. Owner only.
func (l *Log) Close(p *Point) error {
	if l.closed.Load() {
		return nil
	}
	var err error
	if p != nil {
		err = l.Sleep(*p)
	}
	l.closed.Store(true)
	if failed := l.closeWriter(); err == nil {
		err = l.fail(failed)
	}
	l.closeFiles()
	return err
}
