package producer

import "slices"

// run is neighbouring records with neighbouring sequences and offsets; of
// Kafka's kind, where last may have wrapped around, it is one batch.
type run struct {
	first, last int64
	offset      int64
	appendTime  int64
}

// state is what is known of one producer on one partition.
type state struct {
	// runs is not empty, and each follows the one before in sequence. The last
	// ends with the producer's last record.
	runs []run
	// epoch and known are of Kafka's kind: known records of the epoch are in the
	// log, in one sequence that ends with the last run.
	epoch int16
	known int64
}

func (s *state) last() *run { return &s.runs[len(s.runs)-1] }

// lastOffset is the offset of the producer's last record.
func (s *state) lastOffset() int64 {
	r := s.last()
	return r.offset + length(r.first, r.last) - 1
}

// length is how many sequences a range has, wrapped around or not.
func length(first, last int64) int64 {
	if last < first {
		return last - first + 1 + sequenceSpace
	}
	return last - first + 1
}

func (s *state) clone() *state {
	c := *s
	c.runs = slices.Clone(s.runs)
	return &c
}

// add makes a batch the producer's last. One that does not follow makes a new
// beginning.
func (s *state) add(b Batch) {
	if b.Wide() {
		s.addWide(b)
	} else {
		s.addKafka(b)
	}
}
