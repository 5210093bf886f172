package journal

import (
	"go.etcd.io/raft/v3/raftpb"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
)

// FromSnapshot is the table of a replica that begins with a snapshot: the
// segments of the manifest, sealed, an empty active one, and no entries. The
// manifest comes from outside, so it is checked as records of a file are.
func FromSnapshot(meta *raftpb.SnapshotMetadata, manifest *persistv1.SnapshotManifest, hard *raftpb.HardState) (*Table, error) {
	applied := meta.GetIndex()
	tables := &persistv1.JournalTables{FirstIndex: applied + 1, Spans: manifest.GetSpans(), Checkpoint: true}
	for _, s := range manifest.GetSegments() {
		if s.GetSize() > 0 {
			tables.Segments = append(tables.Segments, s)
		}
	}
	tables.Segments = append(tables.Segments, newSegment(manifest.GetNextOffset(), applied+1).Proto())
	point, err := Point(applied, meta.GetConfState(), manifest.GetState(), applied+1, tables.Segments[0].GetBase())
	if err != nil {
		return nil, err
	}
	t := &Table{}
	for _, r := range []Record{
		{Kind: &persistv1.JournalRecord_Tables{Tables: tables}}, point, HardState(hard),
	} {
		if err := t.Apply(r); err != nil {
			return nil, err
		}
	}
	if t.LastTerm() != meta.GetTerm() {
		return nil, damaged("snapshot at %d has term %d, its manifest ends in %d", applied, meta.GetTerm(), t.LastTerm())
	}
	t.trimSpans()
	return t, nil
}
