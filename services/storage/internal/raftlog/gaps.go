package raftlog

import (
	"fmt"
	"io"

	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// walk is segment.Walk over a segment that may have been compacted.
func walk(r io.ReaderAt, s journal.Segment, from segment.At, visit func(segment.Batch) bool) (segment.At, error) {
	if s.Generation > 0 {
		return segment.WalkGaps(r, s.Size, from, visit)
	}
	return segment.Walk(r, s.Size, from, visit)
}

// verifyGaps is verify for a segment that was compacted.
func (s *Stage) verifyGaps(f vfs.File, size int64, x journal.Segment) error {
	bad := error(nil)
	if size != x.Size {
		bad = fmt.Errorf("received %d bytes", size)
	}
	at, err := segment.WalkGaps(f, min(size, x.Size), startOf(x), func(b segment.Batch) bool {
		if b.Header.LeaderEpoch != epochAt(s.table.Spans, b.Offset) {
			bad = fmt.Errorf("wrong epoch at %d", b.Position)
			return false
		}
		ok, err := segment.Checksum(f, b)
		if err == nil && !ok {
			err = fmt.Errorf("wrong checksum at %d", b.Position)
		}
		bad = err
		return err == nil
	})
	if bad == nil {
		bad = err
	}
	if bad == nil && at.Offset > x.NextOffset {
		bad = fmt.Errorf("ends at offset %d", at.Offset)
	}
	if bad != nil {
		return fmt.Errorf("%w: segment %d of %d bytes up to offset %d: %w", ErrDamaged, x.Base, x.Size, x.NextOffset, bad)
	}
	return nil
}
