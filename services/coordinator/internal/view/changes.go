package view

import "github.com/sluiceio/sluice/services/coordinator/internal/rows"

// changeKind is what a change was about.
type changeKind int

const (
	topicChanged changeKind = iota
	nodeChanged
	leadersChanged
	shardsChanged
)

// change says what is different now; how it is different is in the picture.
type change struct {
	kind       changeKind
	topic      rows.TopicID
	node       string
	partitions []int32
}

// maxLogged limits the log: a change counts as one and one more for each of its
// partitions. It bounds the memory to about a megabyte, and is some leader
// elections of the largest topics.
const maxLogged = 1 << 17

// changeLog has the last changes, numbered from 0.
type changeLog struct {
	// changes have the numbers [next-len(changes), next).
	changes []change
	next    uint64
	weight  int
}

func (l *changeLog) add(c change) {
	l.changes = append(l.changes, c)
	l.next++
	l.weight += 1 + len(c.partitions)
	drop := 0
	for l.weight > maxLogged && drop < len(l.changes)-1 {
		l.weight -= 1 + len(l.changes[drop].partitions)
		drop++
	}
	if drop > 0 {
		// Appending moves the rest to a new array by and by, which frees it.
		clear(l.changes[:drop])
		l.changes = l.changes[drop:]
	}
}

// since returns the changes from number n on; ok is false when some of them are
// gone.
func (l *changeLog) since(n uint64) (changes []change, ok bool) {
	missed := l.next - n
	if missed > uint64(len(l.changes)) {
		return nil, false
	}
	return l.changes[uint64(len(l.changes))-missed:], true
}
