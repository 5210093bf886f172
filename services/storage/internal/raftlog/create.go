package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// Create makes a new log. It and its name in the parent folder are durable when
// Create returns. A folder that a crash left without a journal is taken over,
// unless it has records; one with a journal is fs.ErrExist.
func Create(o Options, b Bootstrap) (*Log, error) {
	l := newLog(o)
	if err := l.create(b); err != nil {
		return nil, refused("create", o.Dir, err)
	}
	return l, nil
}

func newLog(o Options) *Log {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Limits == nil {
		o.Limits = DefaultLimits
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Log{o: o}
	l.tail.reset(-1)
	return l
}

func (l *Log) create(b Bootstrap) error {
	if err := finishInstall(l.o.FS, l.o.Dir); err != nil {
		return err
	}
	if err := l.o.FS.MkdirAll(l.o.Dir); err != nil {
		return err
	}
	names, err := l.o.FS.List(l.o.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == journal.Name {
			return fs.ErrExist
		}
		if err := l.removeEmpty(name); err != nil {
			return err
		}
	}
	f, err := l.o.FS.Create(l.name(segment.LogName(0)))
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	// Before the journal has a name, or a power cut could keep that and not the
	// segment's: a segment in the journal without a file is a lost one.
	if err := l.syncDir(); err != nil {
		return err
	}
	t := journal.Bootstrap(proto.CloneOf(b.ConfState))
	if l.journal, err = journal.Create(l.o.FS, l.o.Dir, t, journal.Note{Commit: 1}); err != nil {
		return err
	}
	if err := syncParent(l.o.FS, l.o.Dir); err != nil {
		return err
	}
	return l.begin(t, 1, true, 0)
}

// removeEmpty removes a file of ours that never held a record. One that does,
// without a journal that tells of it, proves that the journal was lost.
func (l *Log) removeEmpty(name string) error {
	base, suffix, ours := segment.ParseName(name)
	if !ours && !leftover(name) {
		return nil
	}
	if suffix == segment.LogSuffix {
		if err := l.checkUnknown(name, base); err != nil {
			return err
		}
	}
	return l.remove(name)
}

// checkUnknown says that a log file of which the journal does not know is damage:
// a segment is in the journal before its first batch is written, so a batch means
// that the journal has lost something. Other bytes are nobody's.
func (l *Log) checkUnknown(name string, base int64) error {
	f, err := l.o.FS.OpenRead(l.name(name))
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size == 0 {
		return err
	}
	begins, err := segment.Begins(f, size, base)
	switch {
	case err != nil:
		return err
	case begins:
		return fmt.Errorf("%w: the journal does not know of %s", ErrDamaged, name)
	}
	l.warn("bytes that are no batch, in a segment that never began, were removed", "segment", base, "bytes", size)
	return nil
}

func (l *Log) remove(name string) error {
	if err := l.o.FS.Remove(l.name(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
