package journal

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
)

// replayed is what the bytes of a journal say.
type replayed struct {
	table Table
	note  Note
	salt  salt
	end   int64 // of the last good frame with its padding; may be past the file's
	torn  bool  // something follows that is no frame
}

// replay folds the bytes of a whole journal file.
func replay(b []byte) (*replayed, error) {
	s, err := parseHead(b)
	if err != nil {
		return nil, err
	}
	r := &replayed{salt: s, note: s.parseNote(b[noteAt:])}
	at, lastCut := framesAt, -1
	for at < len(b) {
		payload, size, ok := s.frame(b[at:])
		if !ok {
			break
		}
		cuts, err := r.table.applyFrame(payload)
		if err != nil {
			return nil, fmt.Errorf("journal frame at %d: %w", at, err)
		}
		if cuts {
			lastCut = at
		}
		at += size
	}
	r.end, r.torn = int64(at), at < len(b)
	if r.end < r.note.end {
		return nil, fmt.Errorf("%w: bad frame at %d, synced up to %d", ErrDamaged, at, r.note.end)
	}
	if next, found := s.findFrame(b, at); found {
		return nil, fmt.Errorf("%w: bad frame at %d, a good one at %d", ErrDamaged, at, next)
	}
	if !r.table.started() {
		return nil, fmt.Errorf("%w: no tables", ErrDamaged)
	}
	// A note of before a cut may call synced what the cut removed. It can
	// outlive the cut's records, which are in other sectors.
	if r.note.end <= int64(lastCut) {
		r.note.Base, r.note.Synced = 0, 0
	}
	return r, nil
}

// findFrame looks for a good frame after the bad one at a position.
func (s salt) findFrame(b []byte, bad int) (int, bool) {
	for at := bad + frameAlign; at+frameHead < len(b); at += frameAlign {
		// The tag of JournalFrame.records spares most checksums.
		if b[at+frameHead] != 1<<3|2 {
			continue
		}
		if _, _, ok := s.frame(b[at:]); ok {
			return at, true
		}
	}
	return 0, false
}

// applyFrame folds the records of a frame and says whether one of them is about
// a cut.
func (t *Table) applyFrame(payload []byte) (cuts bool, err error) {
	var frame persistv1.JournalFrame
	if err := proto.Unmarshal(payload, &frame); err != nil {
		return false, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for _, record := range frame.GetRecords() {
		if err := t.Apply(record); err != nil {
			return false, err
		}
		cuts = cuts || record.GetCutBegin() != nil || record.GetCutDone() != nil
	}
	return cuts, nil
}
