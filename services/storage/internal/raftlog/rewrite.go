package raftlog

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// rewrittenSuffix ends the name of a file that is to take a segment's place; its
// generation stands before it.
const rewrittenSuffix = ".rewritten"

func rewrittenName(name string, generation uint32) string {
	return name + "." + strconv.FormatUint(uint64(generation), 10) + rewrittenSuffix
}

// parseRewritten tells what file a rewritten one is to become.
func parseRewritten(name string) (of string, generation uint32, ok bool) {
	rest, ok := strings.CutSuffix(name, rewrittenSuffix)
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseUint(rest[dot+1:], 10, 32)
	if _, _, ours := segment.ParseName(rest[:dot]); err != nil || !ours {
		return "", 0, false
	}
	return rest[:dot], uint32(n), true
}

// Rewriting writes one segment that is to take the place of some sealed ones that
// follow each other. Its methods are for one goroutine, which need not be the
// log's owner.
//
// Until Swap nothing of it counts. Its files have names of their own, with the
// generation that the segment will have, and are durable before the journal
// speaks of it. From that record on the file of the segment is the one with the
// generation's name until that is renamed; so a crash leaves the old or the new.
type Rewriting struct {
	log     *Log
	old     []journal.Segment
	segment journal.Segment
	changed bool
	index   segment.IndexBuilder
	entries []segment.IndexEntry
	file    vfs.File
	buf     []byte // not written yet
	whole   bool
	swapped bool // the journal may speak of it
}

// Rewrite begins to write a segment in the place of those that Stats told of.
func (l *Log) Rewrite(old []SegmentStat) (*Rewriting, error) {
	r := &Rewriting{log: l}
	known := map[int64]journal.Segment{}
	for _, s := range l.segmentsNow() {
		known[s.Base] = s
	}
	for i, s := range old {
		k, ok := known[s.Base]
		if !ok || !s.Sealed || k.Generation != s.Generation || k.Size != s.Size || i > 0 && s.Base != old[i-1].Next {
			return nil, fmt.Errorf("rewrite: %w: %d", ErrReplaced, s.Base)
		}
		r.old = append(r.old, k)
	}
	first, last := r.old[0], r.old[len(r.old)-1]
	r.segment = journal.Segment{
		Base: first.Base, FirstIndex: first.FirstIndex, NextOffset: last.NextOffset, NextIndex: last.NextIndex,
		MaxTimestamp: -1, MaxTimestampOffset: -1,
		FirstAppendMs: first.FirstAppendMs, LastAppendMs: last.LastAppendMs,
	}
	for _, s := range r.old {
		r.segment.Generation = max(r.segment.Generation, s.Generation+1)
		r.segment.CleanTo = max(r.segment.CleanTo, s.CleanTo)
	}
	r.changed = len(r.old) > 1
	r.index = segment.NewIndexBuilder(indexOf(r.segment), l.o.Limits().IndexInterval, 0, -1, -1)
	// An index that an earlier one left would be taken for this one's.
	if err := r.Abort(); err != nil {
		return nil, fmt.Errorf("remove earlier rewritten segment: %w", err)
	}
	f, err := l.o.FS.Create(r.name(segment.LogName))
	if err != nil {
		return nil, fmt.Errorf("create rewritten segment: %w", err)
	}
	r.file, r.buf = f, make([]byte, 0, scanBuffer)
	return r, nil
}

func (r *Rewriting) name(of func(int64) string) string {
	return r.log.name(rewrittenName(of(r.segment.Base), r.segment.Generation))
}

// Change says that what is written is not what was there.
func (r *Rewriting) Change() { r.changed = true }

// Empty says that no batch was appended so far.
func (r *Rewriting) Empty() bool { return r.segment.Size == 0 }

// Append adds a batch that is stamped.
func (r *Rewriting) Append(batch []byte) error {
	h, err := recordbatch.ParseHeader(batch)
	if err != nil {
		return fmt.Errorf("rewrite: %w", err)
	}
	at := segment.At{Position: r.segment.Size, Offset: h.BaseOffset, Index: r.segment.FirstIndex}
	if e, due := r.index.Add(segment.Batch{At: at, Header: h}); due {
		r.entries = append(r.entries, e)
	}
	if len(r.buf)+len(batch) > cap(r.buf) {
		if err := r.flush(); err != nil {
			return err
		}
	}
	r.buf = append(r.buf, batch...)
	r.segment.Size += int64(len(batch))
	return nil
}

func (r *Rewriting) flush() error {
	if _, err := r.file.WriteAt(r.buf, r.segment.Size-int64(len(r.buf))); err != nil {
		return fmt.Errorf("write rewritten segment: %w", err)
	}
	r.buf = r.buf[:0]
	return nil
}

// Finish makes it durable. What is below cleanTo is clean then, and horizonMs is
// the latest horizon of the tombstones that were appended, 0 if there are none. A
// segment that has not changed keeps its file.
func (r *Rewriting) Finish(cleanTo, horizonMs int64) error {
	r.segment.MaxTimestamp, r.segment.MaxTimestampOffset = r.index.Max()
	r.segment.CleanTo = max(r.segment.CleanTo, min(cleanTo, r.segment.NextOffset))
	r.segment.HorizonMs = horizonMs
	if !r.changed {
		kept := r.old[0]
		kept.CleanTo, kept.HorizonMs = r.segment.CleanTo, horizonMs
		err := r.Abort()
		r.segment, r.whole = kept, true
		return err
	}
	if err := r.flush(); err != nil {
		return err
	}
	if err := r.file.Sync(); err != nil {
		return fmt.Errorf("%w: rewritten segment: %w", errSync, err)
	}
	f := r.file
	r.file, r.buf = nil, nil
	if err := f.Close(); err != nil {
		return fmt.Errorf("close rewritten segment: %w", err)
	}
	if err := r.writeIndex(); err != nil {
		return err
	}
	// The names are durable before the journal speaks of them.
	if err := r.log.syncDir(); err != nil {
		return err
	}
	r.whole = true
	return nil
}

func (r *Rewriting) writeIndex() error {
	if len(r.entries) == 0 {
		return nil
	}
	f, err := r.log.o.FS.Create(r.name(segment.IndexName))
	if err != nil {
		return fmt.Errorf("create index: %w", err)
	}
	return errors.Join(writeIndex(f, r.index.Of, 0, r.entries, true), f.Close())
}

// Abort removes what was written, unless a Swap has begun.
func (r *Rewriting) Abort() error {
	if r.swapped {
		return nil
	}
	var err error
	if r.file != nil {
		err = r.file.Close()
		r.file, r.buf = nil, nil
	}
	return errors.Join(err,
		r.log.remove(rewrittenName(segment.LogName(r.segment.Base), r.segment.Generation)),
		r.log.remove(rewrittenName(segment.IndexName(r.segment.Base), r.segment.Generation)))
}
