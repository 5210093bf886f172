package raftlog

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/storage/internal/journal"
)

// Snapshot is raft.Storage's: the state of the last point, with a
// persistv1.SnapshotManifest that says which bytes of which segments make up the
// log there. Whoever sends it reads them with ReadSegment. Owner only.
func (l *Log) Snapshot() (*raftpb.Snapshot, error) {
	if err := l.ready(); err != nil {
		return nil, err
	}
	last, err := l.journal.Load()
	if err != nil {
		return nil, l.readFailed(err)
	}
	manifest, err := l.manifest(last)
	if err != nil {
		return nil, l.readFailed(err)
	}
	data, err := proto.Marshal(manifest)
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	term, err := l.Term(last.Applied)
	if err != nil {
		return nil, err
	}
	return &raftpb.Snapshot{
		Data:     data,
		Metadata: &raftpb.SnapshotMetadata{Index: new(last.Applied), Term: new(term), ConfState: last.ConfState},
	}, nil
}

// manifest says what the log is at the applied index of a point.
func (l *Log) manifest(point *journal.Table) (*persistv1.SnapshotManifest, error) {
	i, at, err := l.place(point.Applied + 1)
	if err != nil {
		return nil, err
	}
	next, err := l.OffsetAt(point.Applied)
	if err != nil {
		return nil, err
	}
	m := &persistv1.SnapshotManifest{NextOffset: next, State: point.State}
	for _, s := range l.table().Segments[:i] {
		m.Segments = append(m.Segments, s.Proto())
	}
	if at.Position > 0 {
		part, err := l.bounded(l.table().Segments[i], at.Offset)
		if err != nil {
			return nil, err
		}
		part.Size, part.NextOffset = at.Position, at.Offset
		part.NextIndex = min(part.NextIndex, point.Applied+1)
		m.Segments = append(m.Segments, part.Proto())
	}
	for _, s := range l.table().Spans {
		if s.FirstIndex <= point.Applied {
			m.Spans = append(m.Spans, s.Proto())
		}
	}
	return m, nil
}

// ReadSegment reads bytes of a segment as a manifest names it. It returns fewer
// than asked for only with an error: ErrOffsetOutOfRange once the segment is
// dropped and its files are gone, ErrReplaced once compaction has put another in
// its place. Then the snapshot is of no more use.
func (l *Log) ReadSegment(s *persistv1.JournalSegment, position int64, b []byte) error {
	if l.closed.Load() {
		return ErrClosed
	}
	l.files.RLock()
	defer l.files.RUnlock()
	base := s.GetBase()
	if !l.names(s) {
		return fmt.Errorf("%w: %d", ErrReplaced, base)
	}
	f, err := l.openLog(base)
	if err != nil {
		return l.readFailed(l.gone(base, err))
	}
	defer l.o.Files.release(f)
	return l.readFailed(readFull(f, b, position))
}

// names says whether a segment of a manifest is what has its name now, or was
// dropped.
func (l *Log) names(s *persistv1.JournalSegment) bool {
	l.view.RLock()
	defer l.view.RUnlock()
	t := &l.view.table
	now, held := t.SegmentOfOffset(s.GetBase())
	return s.GetBase() < t.Segments[0].Base || held && now.Base == s.GetBase() && now.Generation == s.GetGeneration()
}
