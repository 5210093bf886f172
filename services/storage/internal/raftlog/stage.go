package raftlog

import (
	"errors"
	"fmt"
	"path"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// Folders beside a log's: a snapshot that is being received, and one that is
// whole and takes the log's place.
const (
	stagingSuffix = ".staging"
	installSuffix = ".install"
)

// Stage receives a snapshot's segments in a folder beside the log's. Its methods
// are for one goroutine, which need not be the log's owner.
type Stage struct {
	fs       vfs.FS
	dir      string // of the log
	snapshot *raftpb.Snapshot
	manifest *persistv1.SnapshotManifest
	table    *journal.Table
	file     vfs.File // the segment that is being written
	base     int64
	whole    bool
}

// NewStage begins to receive a snapshot for the log of a folder. What an earlier
// stage left is removed.
func NewStage(fsys vfs.FS, dir string, snapshot *raftpb.Snapshot) (*Stage, error) {
	s := &Stage{fs: fsys, dir: dir, snapshot: snapshot, manifest: &persistv1.SnapshotManifest{}}
	if err := proto.Unmarshal(snapshot.GetData(), s.manifest); err != nil {
		return nil, invalid("manifest: %v", err)
	}
	var err error
	if s.table, err = journal.FromSnapshot(snapshot.GetMetadata(), s.manifest, &raftpb.HardState{}); err != nil {
		return nil, invalid("manifest: %v", err)
	}
	if err := fsys.RemoveAll(s.staging()); err != nil {
		return nil, fmt.Errorf("remove old stage: %w", err)
	}
	if err := fsys.MkdirAll(s.staging()); err != nil {
		return nil, fmt.Errorf("create stage: %w", err)
	}
	return s, nil
}

func (s *Stage) staging() string { return s.dir + stagingSuffix }

// Manifest says which bytes are to be written.
func (s *Stage) Manifest() *persistv1.SnapshotManifest { return s.manifest }

// WriteAt writes bytes of a segment. Segments come one after the other.
func (s *Stage) WriteAt(base, position int64, b []byte) error {
	if s.file == nil || s.base != base {
		if err := s.next(base); err != nil {
			return err
		}
	}
	if _, err := s.file.WriteAt(b, position); err != nil {
		return fmt.Errorf("write to stage: %w", err)
	}
	return nil
}

// next syncs the segment that was being written and begins one with a base.
func (s *Stage) next(base int64) error {
	if err := s.syncFile(); err != nil {
		return err
	}
	f, err := s.fs.Create(path.Join(s.staging(), segment.LogName(base)))
	if err != nil {
		return fmt.Errorf("create in stage: %w", err)
	}
	s.file, s.base = f, base
	return nil
}

func (s *Stage) syncFile() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	err := f.Sync()
	if err != nil {
		err = fmt.Errorf("%w: stage: %w", errSync, err)
	}
	return errors.Join(err, f.Close())
}

// Finish checks every byte that was received and makes it durable. Only then may
// raft be told of the snapshot.
func (s *Stage) Finish() error {
	// Also makes the active segment's file, which is empty.
	if err := s.next(s.manifest.GetNextOffset()); err != nil {
		return err
	}
	if err := s.syncFile(); err != nil {
		return err
	}
	for _, x := range s.table.Segments {
		if err := s.verify(x); err != nil {
			return err
		}
	}
	if err := s.fs.SyncDir(s.staging()); err != nil {
		return fmt.Errorf("%w: stage: %w", errSync, err)
	}
	s.whole = true
	return nil
}

// verify checks the batches of a segment: whole, in order, of the right epochs.
func (s *Stage) verify(x journal.Segment) error {
	f, err := s.fs.OpenRead(path.Join(s.staging(), segment.LogName(x.Base)))
	if err != nil {
		return fmt.Errorf("verify stage: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("verify stage: %w", err)
	}
	if x.Generation > 0 {
		return s.verifyGaps(f, size, x)
	}
	expect := func(at segment.At) (uint64, int32, bool) {
		return at.Index, epochAt(s.table.Spans, at.Offset), true
	}
	res, err := segment.Scan(f, size, startOf(x), expect, func(segment.Batch) {})
	if err != nil {
		return fmt.Errorf("verify stage: %w", err)
	}
	if size != x.Size || res.End.Position != x.Size || res.End.Offset != x.NextOffset {
		return fmt.Errorf("%w: received %d bytes of segment %d, good up to %d and offset %d, expected %d and %d",
			ErrDamaged, size, x.Base, res.End.Position, res.End.Offset, x.Size, x.NextOffset)
	}
	return nil
}

// Abort removes what was received.
func (s *Stage) Abort() error {
	err := s.syncFile()
	return errors.Join(err, s.fs.RemoveAll(s.staging()))
}
