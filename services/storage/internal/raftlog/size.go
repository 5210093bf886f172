package raftlog

// Size tells how many segments the log has and how many bytes are in them.
func (l *Log) Size() (segments int, bytes int64) {
	l.view.RLock()
	defer l.view.RUnlock()
	for _, s := range l.view.table.Segments {
		bytes += s.Size
	}
	return len(l.view.table.Segments), bytes
}

// ActiveBase is the base offset of the active segment. It changes with a roll.
func (l *Log) ActiveBase() int64 {
	l.view.RLock()
	defer l.view.RUnlock()
	return l.view.table.Active().Base
}
