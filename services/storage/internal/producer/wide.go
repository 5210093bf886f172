package producer

import "slices"

// Window is how many of the last records of a wide producer are known.
const Window = 128

// New is the offset of a sequence that is not written yet.
const New int64 = -1

func (s *state) addWide(b Batch) {
	added := run{first: b.First, last: b.Last, offset: b.Offset, appendTime: NoTime}
	if len(s.runs) == 0 || !follows(s.last().last, b.First) {
		s.runs = append(s.runs[:0], added)
	} else if r := s.last(); r.offset+length(r.first, r.last) == b.Offset {
		r.last = b.Last
	} else {
		s.runs = append(s.runs, added)
	}
	s.trimWide()
}

// trimWide forgets what is older than the window.
func (s *state) trimWide() {
	low := max(s.last().last-(Window-1), 0)
	gone := 0
	for s.runs[gone].last < low {
		gone++
	}
	if gone > 0 {
		s.runs = slices.Delete(s.runs, 0, gone)
	}
	if r := &s.runs[0]; r.first < low {
		r.offset += low - r.first
		r.first = low
	}
}

// follows tells whether a sequence is the next, also where there is no next.
func follows(last, next int64) bool { return next > last && next-last == 1 }

// offsetOf returns where a known record is.
func (s *state) offsetOf(sequence int64) int64 {
	i, _ := slices.BinarySearchFunc(s.runs, sequence, func(r run, sequence int64) int {
		switch {
		case r.last < sequence:
			return -1
		case r.first > sequence:
			return 1
		default:
			return 0
		}
	})
	return s.runs[i].offset + sequence - s.runs[i].first
}

// evaluate goes over the sequences of records that are to be appended together,
// in their order, as if each new one were written at once. It returns the offset
// of each that is known, and New for the others: those that are to be written,
// which follow one another, and those that repeat one of them. The producer is
// unknown when s is nil; then its first sequence may be any.
func (s *state) evaluate(sequences []int64) ([]int64, error) {
	offsets := make([]int64, len(sequences))
	var low, last, fresh int64
	known, some := s != nil, false
	if known {
		low, last = s.runs[0].first, s.last().last
	}
	for i, sequence := range sequences {
		switch {
		case !known || follows(last, sequence):
			if !some {
				some, fresh = true, sequence
			}
			if !known {
				known, low = true, sequence
			}
			last = sequence
			low = max(low, last-(Window-1))
			offsets[i] = New
		case sequence > last:
			return nil, &Error{Fault: Gap, Record: i, Expected: last + 1, Got: sequence}
		case sequence < low:
			return nil, &Error{Fault: TooOld, Record: i, Expected: low, Got: sequence}
		case some && sequence >= fresh:
			offsets[i] = New
		default:
			offsets[i] = s.offsetOf(sequence)
		}
	}
	return offsets, nil
}
