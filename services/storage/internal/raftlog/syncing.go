package raftlog

import "github.com/sluiceio/sluice/services/storage/internal/segment"

// Syncing is a sync that writes with MayDefer have left to do; see segment.Syncing.
// It may run beside the log's owner, who goes on writing, and then has to be told by
// Synced.
type Syncing struct{ segment.Syncing }

// Syncing returns the sync of all that is not durable yet, and false when
// everything is. Owner only.
func (l *Log) Syncing() (Syncing, bool) {
	if l.writer == nil || l.writer.Synced() == l.writer.End() {
		return Syncing{}, false
	}
	return Syncing{l.writer.Syncing()}, true
}

// Synced takes note that a Syncing has ended, with its error. Owner only.
func (l *Log) Synced(err error) error {
	if err := l.ready(); err != nil {
		return err
	}
	if err == nil && l.writer != nil {
		l.writer.Count()
		err = l.note()
	}
	return l.fail(err)
}
