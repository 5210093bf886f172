package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// Open recovers a log. errors.Is(err, ErrDamaged) tells damage; fs.ErrNotExist
// that there is none. What it recovers is durable.
func Open(o Options) (*Log, error) {
	l := newLog(o)
	if err := l.open(); err != nil {
		l.closeFiles()
		return nil, refused("open", o.Dir, err)
	}
	return l, nil
}

func (l *Log) open() error {
	if err := finishInstall(l.o.FS, l.o.Dir); err != nil {
		return err
	}
	j, t, note, torn, err := journal.Open(l.o.FS, l.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return l.withoutJournal(err)
	}
	if err != nil {
		return err
	}
	l.journal = j
	l.view.table = *t
	clean, state := t.Clean, t.State
	if torn > 0 {
		l.warn("torn journal was cut", "bytes", torn)
	}
	names, err := l.finishSwaps()
	if err != nil {
		return err
	}
	beyond, activeSize, err := l.tidy(names)
	if err != nil {
		return err
	}
	if t.Cut != nil {
		l.commit = note.Commit
		l.warn("unfinished cut is done again", "index", t.Cut.Index)
		if err := l.finishCut(beyond); err != nil {
			return err
		}
		note.Synced, activeSize = 0, l.active().Size
	}
	if a := *l.active(); !l.table().Checkpoint || activeSize != a.Size || note.Base == a.Base && note.Synced > a.Size {
		clean, l.table().Clean = false, false
		cut, err := l.recoverTail(note, activeSize)
		if err != nil {
			return err
		}
		torn += cut
	}
	l.table().State = state
	return l.begin(l.table(), note.Commit, clean, torn)
}

// withoutJournal tells a log that is not there from one that lost its journal.
func (l *Log) withoutJournal(absent error) error {
	names, err := l.o.FS.List(l.o.Dir)
	if err != nil {
		return absent
	}
	for _, name := range names {
		if _, suffix, _ := segment.ParseName(name); suffix != segment.LogSuffix {
			continue
		}
		if info, err := l.o.FS.Stat(l.name(name)); err != nil || info.Size > 0 {
			return fmt.Errorf("%w: no journal beside %s", ErrDamaged, name)
		}
	}
	return absent
}

// begin takes a table whose active segment has its end.
func (l *Log) begin(t *journal.Table, commit uint64, clean bool, torn int64) error {
	l.view.table = *t
	l.countLocked()
	if err := l.consecutive(); err != nil {
		return err
	}
	t = l.table()
	if t.Applied > l.view.lastIndex {
		return fmt.Errorf("%w: index %d was applied, the log ends at %d", ErrDamaged, t.Applied, l.view.lastIndex)
	}
	// The journal knew of the commit index when it was known to few; the note
	// may be of before the last cut.
	l.commit = min(max(commit, t.Hard.GetCommit(), t.Applied), l.view.lastIndex)
	hard := &raftpb.HardState{Term: new(t.Hard.GetTerm()), Vote: new(t.Hard.GetVote()), Commit: new(l.commit)}
	l.recovered = Recovered{
		HardState: hard, ConfState: proto.CloneOf(t.ConfState), Applied: t.Applied, State: t.State,
		Clean: clean, TornBytes: torn,
	}
	t.State = nil
	return nil
}

// consecutive says whether batches and the journal's entries add up to a log
// without gaps. Batches are durable before a later entry is, so a gap is damage.
func (l *Log) consecutive() error {
	t := l.table()
	next := t.Active().NextIndex
	for _, e := range t.Entries[t.EntryAt(next):] {
		if e.GetIndex() != next || e.Offset != t.Active().NextOffset {
			return fmt.Errorf("%w: batches end before index %d and offset %d, the journal goes on with %d at %d",
				ErrDamaged, next, t.Active().NextOffset, e.GetIndex(), e.Offset)
		}
		next++
	}
	return nil
}

// leftover names the files that a crash leaves and that nobody needs.
func leftover(name string) bool {
	_, _, rewritten := parseRewritten(name)
	return rewritten || name == journal.NewName || strings.HasSuffix(name, newIndexSuffix)
}

// tidy compares the names in the folder with the table. It removes what crashes may leave,
// and returns the bases of segments that a cut under way is to remove, and the
// size of the active segment's log file.
func (l *Log) tidy(names []string) (beyond []int64, activeSize int64, err error) {
	known := map[int64]*journal.Segment{}
	t := l.table()
	for i := range t.Segments {
		known[t.Segments[i].Base] = &t.Segments[i]
	}
	found := 0
	for _, name := range names {
		base, suffix, ours := segment.ParseName(name)
		s := known[base]
		switch {
		case !ours:
			if leftover(name) {
				err = l.remove(name)
			}
		case s == nil && base < t.Segments[0].Base:
			err = l.remove(name) // dropped before the crash
		case s == nil && t.Cut != nil && base > t.Cut.Base:
			beyond = appendNew(beyond, base)
		case s == nil && l.merged(base):
			err = l.remove(name)
		case s == nil:
			err = l.removeEmpty(name)
		case suffix == segment.LogSuffix:
			found++
			var size int64
			size, err = l.checkFile(s)
			if s == t.Active() {
				activeSize = size
			}
		}
		if err != nil {
			return nil, 0, err
		}
	}
	if found < len(known) {
		return nil, 0, fmt.Errorf("%w: %d of %d segments are missing", ErrDamaged, len(known)-found, len(known))
	}
	return beyond, activeSize, nil
}

// appendNew appends a base unless it is the last; names come sorted.
func appendNew(bases []int64, base int64) []int64 {
	if n := len(bases); n > 0 && bases[n-1] == base {
		return bases
	}
	return append(bases, base)
}

// checkFile compares a log file's size with what the table knows.
func (l *Log) checkFile(s *journal.Segment) (int64, error) {
	name := segment.LogName(s.Base)
	info, err := l.o.FS.Stat(l.name(name))
	if err != nil {
		return 0, err
	}
	active := s == l.table().Active()
	known := !active || l.table().Checkpoint
	if known && info.Size < s.Size {
		return 0, fmt.Errorf("%w: %s has %d bytes of %d", ErrDamaged, name, info.Size, s.Size)
	}
	if !active && info.Size > s.Size {
		l.warn("bytes after the end of a sealed segment were cut", "segment", s.Base, "bytes", info.Size-s.Size)
		return s.Size, segment.CutFile(l.o.FS, l.name(name), s.Size)
	}
	return info.Size, nil
}

func (l *Log) warn(message string, args ...any) {
	l.o.Logger.Warn(message, append([]any{"dir", l.o.Dir}, args...)...)
}
