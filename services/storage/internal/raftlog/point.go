package raftlog

import (
	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/storage/internal/journal"
)

// Point is the state after applying an index: what lets a replica start without
// the entries up to it.
type Point struct {
	Applied uint64
	// ConfState is the configuration at Applied, not a later one.
	ConfState *raftpb.ConfState
	// State is opaque to the log.
	State []byte
}

// WritePoint is durable when it returns. Owner only.
func (l *Log) WritePoint(p Point) error {
	record, err := l.pointRecord(p)
	if err != nil {
		return err
	}
	if err := l.append(record); err != nil {
		return l.fail(err)
	}
	return l.fail(l.compactJournal())
}

func (l *Log) pointRecord(p Point) (journal.Record, error) {
	if err := l.ready(); err != nil {
		return nil, err
	}
	t := l.table()
	if p.Applied < t.Applied || p.Applied > l.view.lastIndex {
		return nil, invalid("point at %d, the last is at %d and the log ends at %d", p.Applied, t.Applied, l.view.lastIndex)
	}
	return journal.Point(p.Applied, p.ConfState, p.State, t.FirstIndex, t.Segments[0].Base)
}

func (l *Log) compactJournal() error {
	if !l.journal.Grown() {
		return nil
	}
	return l.journal.Compact()
}
