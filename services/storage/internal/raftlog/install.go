package raftlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/storage/internal/journal"
)

// Install replaces the whole log by a stage that is finished, with a hard state
// that raft gave together with the snapshot (nil: the log's). Owner only.
//
// A folder with the install suffix is whole and durable from the rename that
// gives it this name. From then on the old folder only has to go, which the next
// Open does if a crash comes first.
func (l *Log) Install(s *Stage, hard *raftpb.HardState) error {
	if err := l.ready(); err != nil {
		return err
	}
	applied := s.snapshot.GetMetadata().GetIndex()
	if !s.whole || applied <= l.commit {
		return invalid("install of a snapshot at %d over a log committed up to %d", applied, l.commit)
	}
	if hard == nil {
		hard = l.table().Hard
	}
	return l.fail(l.install(s, &raftpb.HardState{
		Term: new(hard.GetTerm()), Vote: new(hard.GetVote()), Commit: new(max(hard.GetCommit(), applied)),
	}))
}

func (l *Log) install(s *Stage, hard *raftpb.HardState) error {
	t, err := journal.FromSnapshot(s.snapshot.GetMetadata(), s.manifest, hard)
	if err != nil {
		return err
	}
	note := journal.Note{Base: t.Active().Base, Commit: hard.GetCommit()}
	j, err := journal.Create(s.fs, s.staging(), t, note)
	if err != nil {
		return err
	}
	j.Sleep()
	if err := s.fs.Rename(s.staging(), s.dir+installSuffix); err != nil {
		return err
	}
	if err := syncParent(s.fs, s.dir); err != nil {
		return err
	}
	if err := l.closeWriter(); err != nil {
		return err
	}
	l.files.Lock()
	defer l.files.Unlock()
	l.closeFiles()
	return l.takeOver()
}

// takeOver opens the installed folder in place of the old one.
func (l *Log) takeOver() error {
	n := newLog(l.o)
	if err := n.open(); err != nil {
		return err
	}
	n.closeFiles()
	l.journal, l.commit = n.journal, n.commit
	l.tail.unload()
	l.doomed = nil // the folder is another
	l.view.Lock()
	defer l.view.Unlock()
	l.view.table, l.view.lastIndex = n.view.table, n.view.lastIndex
	return nil
}

// finishInstall does what a crash in an Install left to be done, and removes what
// one in a Stage left.
func finishInstall(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(dir + installSuffix); err == nil {
		if err := fsys.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove replaced log: %w", err)
		}
		if err := fsys.Rename(dir+installSuffix, dir); err != nil {
			return fmt.Errorf("install snapshot: %w", err)
		}
		if err := syncParent(fsys, dir); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for a snapshot: %w", err)
	}
	if _, err := fsys.Stat(dir + stagingSuffix); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := fsys.RemoveAll(dir + stagingSuffix); err != nil {
		return fmt.Errorf("remove stage: %w", err)
	}
	return nil
}

func syncParent(fsys vfs.FS, dir string) error {
	if err := fsys.SyncDir(path.Dir(dir)); err != nil {
		return fmt.Errorf("%w: %w", errSync, err)
	}
	return nil
}
