package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"sort"

	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// Swap puts a finished rewriting in the place of the segments that it was made
// of, which must end at or below the applied index of a point that comes with it.
// It is ErrReplaced if they are not what they were. Owner only.
//
// The record of it is durable first, in one frame with the point that raises the
// first index above the segments. Then, while no reader looks, the files get
// their names. A crash in between leaves files that the next start renames;
// whoever holds a file of before reads on in it.
func (l *Log) Swap(r *Rewriting, p Point) error {
	if err := l.ready(); err != nil {
		return err
	}
	records, err := l.swapRecords(r, p)
	if err != nil {
		return err
	}
	return l.fail(l.swap(r, records))
}

// swapRecords refuses what is not to be swapped now.
func (l *Log) swapRecords(r *Rewriting, p Point) ([]journal.Record, error) {
	t := l.table()
	i := sort.Search(len(t.Segments), func(i int) bool { return t.Segments[i].Base >= r.old[0].Base })
	if i+len(r.old) >= len(t.Segments) {
		return nil, fmt.Errorf("swap: %w: %d", ErrReplaced, r.old[0].Base)
	}
	for k, s := range r.old {
		if t.Segments[i+k] != s {
			return nil, fmt.Errorf("swap: %w: %d", ErrReplaced, s.Base)
		}
	}
	first := max(t.FirstIndex, t.Segments[i+len(r.old)].FirstIndex)
	switch {
	case !r.whole:
		return nil, invalid("swap of a segment that is not whole")
	case p.Applied < t.Applied || p.Applied > l.view.lastIndex || first > p.Applied+1:
		return nil, invalid("swap below index %d with a point at %d", first, p.Applied)
	}
	if err := l.stillThere(r); err != nil {
		return nil, err
	}
	point, err := journal.Point(p.Applied, p.ConfState, p.State, first, t.Segments[0].Base)
	if err != nil {
		return nil, err
	}
	return []journal.Record{point, journal.Swap([]journal.Segment{r.segment})}, nil
}

// stillThere says whether what was written is in the folder: a snapshot may have
// replaced it by one with the same segments.
func (l *Log) stillThere(r *Rewriting) error {
	if !r.changed {
		return nil
	}
	info, err := l.o.FS.Stat(r.name(segment.LogName))
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size != r.segment.Size {
		return fmt.Errorf("swap: %w: %d", ErrReplaced, r.segment.Base)
	}
	return err
}

func (l *Log) swap(r *Rewriting, records []journal.Record) error {
	r.swapped = true
	if err := l.journal.Append(records...); err != nil {
		return err
	}
	if err := l.takeRewritten(r, records); err != nil {
		return err
	}
	for _, s := range r.old[1:] {
		if err := l.removeSegment(s.Base); err != nil {
			return err
		}
	}
	return l.compactJournal()
}

// takeRewritten shows readers the new segment.
func (l *Log) takeRewritten(r *Rewriting, records []journal.Record) error {
	l.files.Lock()
	defer l.files.Unlock()
	if err := l.apply(records...); err != nil {
		return err
	}
	if !r.changed {
		return nil
	}
	for _, s := range r.old {
		l.o.Files.drop(fileKey{l, s.Base, false}, fileKey{l, s.Base, true})
		l.reads.replaced(s.Base)
	}
	// An index that stays would be written anew by the first who reads it.
	if len(r.entries) > 0 {
		if err := l.takeName(r.segment, segment.IndexName); err != nil {
			return err
		}
	} else if err := l.remove(segment.IndexName(r.segment.Base)); err != nil {
		return fmt.Errorf("remove index: %w", err)
	}
	return l.takeName(r.segment, segment.LogName)
}

func (l *Log) takeName(s journal.Segment, of func(int64) string) error {
	name := of(s.Base)
	if err := l.o.FS.Rename(l.name(rewrittenName(name, s.Generation)), l.name(name)); err != nil {
		return fmt.Errorf("swap: %w", err)
	}
	return nil
}

// replaced forgets what reads know of a segment.
func (r *readState) replaced(base int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.readMemory == nil {
		return
	}
	delete(r.mu.checked, base)
	for i, h := range r.mu.hints {
		if h.base == base {
			r.mu.hints[i] = hint{}
		}
	}
}

// finishSwaps gives the files of swaps that a crash came upon their names. Those
// of a rewriting that was never swapped in are not touched. An index need not be
// the right one: it tells of its generation. It returns the names in the folder.
func (l *Log) finishSwaps() (names []string, err error) {
	if names, err = l.o.FS.List(l.o.Dir); err != nil {
		return nil, fmt.Errorf("list folder: %w", err)
	}
	renamed := false
	for _, name := range names {
		of, generation, ok := parseRewritten(name)
		if !ok {
			continue
		}
		base, _, _ := segment.ParseName(of)
		s, held := l.table().SegmentOfOffset(base)
		if !held || s.Base != base || s.Generation != generation {
			continue
		}
		if err := l.o.FS.Rename(l.name(name), l.name(of)); err != nil {
			return nil, fmt.Errorf("finish swap: %w", err)
		}
		renamed = true
	}
	if !renamed {
		return names, nil
	}
	if err := l.syncDir(); err != nil {
		return nil, err
	}
	if names, err = l.o.FS.List(l.o.Dir); err != nil {
		return nil, fmt.Errorf("list folder: %w", err)
	}
	return names, nil
}

// merged says that a segment with a base was rewritten together with the one
// before it: its files only have to go.
func (l *Log) merged(base int64) bool {
	s, held := l.table().SegmentOfOffset(base)
	return held && s.Generation > 0 && s.Base != base
}
