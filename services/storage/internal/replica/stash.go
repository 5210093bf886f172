package replica

import (
	"sync"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// maxPooledEntries is how many entries a draft may have had room for to be used
// again: some 200 KiB.
const maxPooledEntries = 1024

// draft is a group of entries from when it is proposed until it is written: what
// Raft is given, of which it makes copies, and the batches, which it never sees.
type draft struct {
	headers []byte
	slab    []raftpb.Entry
	// entries point into slab, and their data into headers.
	entries []*raftpb.Entry
	// first is the index of the first entry, term the term of all.
	first, term uint64
	// payloads is parallel to entries; nil for one that is no batch.
	payloads [][]byte
}

// drafts are empty ones: a replica has one only from Propose to the end of Run.
var drafts = sync.Pool{New: func() any { return new(draft) }}

// newDraft has room for n entries.
func newDraft(n int, first, term uint64) *draft {
	d := drafts.Get().(*draft)
	if len(d.slab) < n {
		d.slab = make([]raftpb.Entry, n)
		d.headers = make([]byte, n*recordbatch.HeaderSize)
	}
	d.first, d.term = first, term
	return d
}

// next is the index of the next entry.
func (d *draft) next() uint64 { return d.first + uint64(len(d.entries)) }

// add adds an entry with its data.
func (d *draft) add(data, payload []byte) {
	entry := &d.slab[len(d.entries)]
	entry.Data = data
	d.entries = append(d.entries, entry)
	d.payloads = append(d.payloads, payload)
}

// addBatch adds the entry of a batch and returns its data, a copy of the header,
// to be stamped: the batch is the caller's, who may try again with it.
func (d *draft) addBatch(batch []byte) (header []byte) {
	at := len(d.entries) * recordbatch.HeaderSize
	header = d.headers[at : at+recordbatch.HeaderSize : at+recordbatch.HeaderSize]
	copy(header, batch)
	d.add(header, batch)
	return header
}

func (d *draft) release() {
	for _, entry := range d.entries {
		entry.Data = nil
	}
	clear(d.entries)
	clear(d.payloads)
	d.entries, d.payloads = d.entries[:0], d.payloads[:0]
	if len(d.slab) <= maxPooledEntries {
		drafts.Put(d)
	}
}

// stash holds payloads between Propose or Step and the write, by index and term:
// a message that is refused must not leave its payload to another's entry.
type stash struct {
	draft   *draft // of the last Propose; nil for none
	stepped map[entryID][]byte
}

type entryID struct{ index, term uint64 }

// step keeps the payload of an entry of a message.
func (s *stash) step(entry *raftpb.Entry, payload []byte) {
	if s.stepped == nil {
		s.stepped = map[entryID][]byte{}
	}
	s.stepped[entryID{entry.GetIndex(), entry.GetTerm()}] = payload
}

// payload is that of a batch's entry; nil when it is not here.
func (s *stash) payload(entry *raftpb.Entry) []byte {
	index, term := entry.GetIndex(), entry.GetTerm()
	if d := s.draft; d != nil && d.term == term && index >= d.first && index < d.next() {
		return d.payloads[index-d.first]
	}
	return s.stepped[entryID{index, term}]
}

func (s *stash) clear() {
	if s.draft != nil {
		s.draft.release()
	}
	*s = stash{}
}
