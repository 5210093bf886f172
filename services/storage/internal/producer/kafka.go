package producer

import "slices"

// kafkaBatches is how many batches of a producer of Kafka's kind are known; as
// many as its clients have under way at once.
const kafkaBatches = 5

func (s *state) addKafka(b Batch) {
	added := run{first: b.First, last: b.Last, offset: b.Offset, appendTime: b.AppendTime}
	if len(s.runs) == 0 || s.epoch != b.Epoch || b.First != wrap(s.last().last+1) {
		s.runs, s.epoch, s.known = append(s.runs[:0], added), b.Epoch, length(b.First, b.Last)
		return
	}
	if len(s.runs) == kafkaBatches {
		s.runs = slices.Delete(s.runs, 0, 1)
	}
	s.runs = append(s.runs, added)
	s.known += length(b.First, b.Last)
}

// checkKafka tells whether a batch may be written: it is the next one, or, when
// it is none of the last ones (dup), an *Error says why not. The producer is
// unknown when s is nil; then its first sequence may be any.
func (s *state) checkKafka(b Batch) (dup *run, err error) {
	switch {
	case s == nil:
		return nil, nil
	case b.Epoch < s.epoch:
		return nil, &Error{Fault: OldEpoch, Expected: int64(s.epoch), Got: int64(b.Epoch)}
	case b.Epoch > s.epoch:
		if b.First != 0 {
			return nil, &Error{Fault: Gap, Expected: 0, Got: b.First}
		}
		return nil, nil
	}
	for i := range s.runs {
		if r := &s.runs[i]; r.first == b.First && r.last == b.Last {
			return r, nil
		}
	}
	next := wrap(s.last().last + 1)
	if b.First == next {
		return nil, nil
	}
	// Clients take TooOld for written, so it must surely be: all of the batch lies
	// within what is known, and not half the way around, where before and after
	// cannot be told apart.
	if behind := length(b.First, s.last().last); behind <= min(s.known, sequenceSpace/2) && length(b.First, b.Last) <= behind {
		return nil, &Error{Fault: TooOld, Expected: s.runs[0].first, Got: b.First}
	}
	return nil, &Error{Fault: Gap, Expected: next, Got: b.First}
}
