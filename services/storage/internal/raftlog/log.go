package raftlog

import (
	"errors"
	"fmt"
	"path"
	"sync"
	"sync/atomic"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// Log is one replica's log.
//
// Each method says "Owner only" if it is for one goroutine at a time, the one
// that owns the replica; all others may be called by anyone at any time, beside
// the owner.
type Log struct {
	o Options

	// Owner only.
	journal   *journal.Journal
	writer    *segment.Writer // of the active segment; nil while asleep
	commit    uint64          // largest index known to be committed
	recent    recent
	recovered Recovered
	payloads  [][]byte // scratch
	doomed    []doomed // the one that is due first comes first

	// failed is the error that poisoned the log, if any.
	failed atomic.Pointer[error]
	closed atomic.Bool

	// view is what readers see. The owner alone changes it, holding the lock,
	// and so may read it without. What it shows is durable, but for batches that
	// were written with MayDefer.
	view struct {
		sync.RWMutex
		table     journal.Table
		lastIndex uint64
	}

	// tail is the index of the active segment.
	tail indexTail

	// files is held by readers while they use files. Install alone takes it for
	// writing: the files of a name are others then.
	files sync.RWMutex

	// rebuild lets one goroutine at a time write an index anew.
	rebuild sync.Mutex

	reads readState
}

var _ raft.Storage = (*Log)(nil)

// Recovered is what Create or Open found.
type Recovered struct {
	// HardState has a commit index that the log holds.
	HardState *raftpb.HardState
	// ConfState is the configuration at Applied.
	ConfState *raftpb.ConfState
	// Applied and State are those of the last point.
	Applied uint64
	State   []byte
	// Clean says that the log was stopped cleanly, so that nothing was read.
	Clean bool
	// TornBytes is what was cut off the ends of files.
	TornBytes int64
}

// Recovered tells what Create or Open found. State is handed out once. Owner
// only.
func (l *Log) Recovered() Recovered {
	r := l.recovered
	l.recovered.State = nil
	return r
}

// ready says whether the owner may go on.
func (l *Log) ready() error {
	if l.closed.Load() {
		return ErrClosed
	}
	if err := l.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// fail poisons the log with an error of the file system and returns what the
// caller is to see. It passes nil through.
func (l *Log) fail(err error) error {
	if err == nil {
		return nil
	}
	kind := ErrFailed
	if ofSync(err) {
		kind = ErrSyncFailed
	}
	err = fmt.Errorf("%w: %s: %w", kind, l.o.Dir, asDamage(err))
	l.failed.CompareAndSwap(nil, &err)
	return err
}

// ofSync says whether an error is that of a sync.
func ofSync(err error) bool {
	return errors.Is(err, segment.ErrSync) || errors.Is(err, journal.ErrSync) || errors.Is(err, errSync)
}

// refused is the error of a Create or Open.
func refused(doing, dir string, err error) error {
	if ofSync(err) {
		return fmt.Errorf("%s %s: %w: %w", doing, dir, ErrSyncFailed, asDamage(err))
	}
	return fmt.Errorf("%s %s: %w", doing, dir, asDamage(err))
}

func (l *Log) name(file string) string { return path.Join(l.o.Dir, file) }

// append makes records durable and folds them.
func (l *Log) append(records ...journal.Record) error {
	if len(records) == 0 {
		return nil
	}
	// What is in the journal proves that the batches before it were durable.
	if l.writer != nil {
		if err := l.writer.Sync(); err != nil {
			return err
		}
	}
	if err := l.journal.Append(records...); err != nil {
		return err
	}
	return l.apply(records...)
}

func (l *Log) apply(records ...journal.Record) error {
	l.view.Lock()
	defer l.view.Unlock()
	for _, r := range records {
		if err := l.view.table.Apply(r); err != nil {
			return fmt.Errorf("fold of what was just written: %w", err)
		}
	}
	// The journal has it; it may be large.
	l.view.table.State = nil
	l.countLocked()
	return nil
}

// countLocked finds the last index after the table has changed.
func (l *Log) countLocked() {
	t := &l.view.table
	l.view.lastIndex = t.Active().NextIndex - 1
	if n := len(t.Entries); n > 0 {
		l.view.lastIndex = max(l.view.lastIndex, t.Entries[n-1].GetIndex())
	}
}

// table is for the owner.
func (l *Log) table() *journal.Table { return &l.view.table }

// active is the active segment, for the owner.
func (l *Log) active() *journal.Segment { return l.view.table.Active() }

// note writes down what is synced and committed.
func (l *Log) note() error {
	a := l.active()
	synced := a.Size
	if l.writer != nil {
		synced = l.writer.Synced()
	}
	return l.journal.SetNote(a.Base, synced, l.commit)
}

// wake opens the active segment for writing.
func (l *Log) wake() error {
	if l.writer != nil {
		return nil
	}
	a := l.active()
	f, err := l.o.FS.Open(l.name(segment.LogName(a.Base)))
	if err != nil {
		return fmt.Errorf("open active segment: %w", err)
	}
	w := l.newWriter(f, a)
	// Zeros that another process wrote ahead go: the writer's begin at the end,
	// and what looks like zeros may be the beginning of a torn batch.
	if err := w.Cut(); err != nil {
		return errors.Join(err, w.Close())
	}
	l.writer = l.newWriter(f, a)
	return nil
}

func (l *Log) newWriter(f vfs.File, a *journal.Segment) *segment.Writer {
	if l.o.Scheduler == nil {
		return segment.NewWriter(f, a.Size, nil)
	}
	name := l.name(segment.LogName(a.Base))
	return segment.NewWriter(f, a.Size, &segment.Ahead{
		Schedule: l.o.Scheduler,
		Open:     func() (vfs.File, error) { return l.o.FS.Open(name) },
		Limit:    l.o.Limits().SegmentBytes,
	})
}

// closeWriter closes the active segment.
func (l *Log) closeWriter() error {
	if l.writer == nil {
		return nil
	}
	w := l.writer
	l.writer = nil
	return w.Close()
}

var errSync = errors.New("sync failed")

// syncDir makes the names in the log's folder durable.
func (l *Log) syncDir() error {
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
		return fmt.Errorf("%w: %w", errSync, err)
	}
	return nil
}

// NextOffset is the offset that the next batch gets.
func (l *Log) NextOffset() int64 {
	l.view.RLock()
	defer l.view.RUnlock()
	return l.view.table.Active().NextOffset
}

// LastOffset is one less than NextOffset; -1 in a log without records.
func (l *Log) LastOffset() int64 { return l.NextOffset() - 1 }

// StartOffset is the first offset held, the base of the first segment.
func (l *Log) StartOffset() int64 {
	l.view.RLock()
	defer l.view.RUnlock()
	return l.view.table.Segments[0].Base
}
