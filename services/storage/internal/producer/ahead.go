package producer

import "fmt"

// Ahead is what a leader knows: the table, and on top of it the batches that it
// has appended and that are not committed yet. The zero value with a table is
// ready.
type Ahead struct {
	Table *Table
	// batches are under way, in log order; states are those of their producers,
	// with them.
	batches []Batch
	states  map[int64]*flight
}

// flight is a producer with batches under way.
type flight struct {
	*state
	batches int
}

// find returns what is known of a producer, or nil.
func (a *Ahead) find(producer, nowMs int64) *state {
	if f, ok := a.states[producer]; ok {
		return f.state
	}
	return a.Table.find(producer, nowMs)
}

// Verdict is what becomes of a batch.
type Verdict struct {
	// Duplicate tells that it was appended before, at Offset and AppendTime.
	Duplicate          bool
	Offset, AppendTime int64
}

// Check tells whether a batch of Kafka's kind is the next of its producer or one
// of the last. Otherwise an *Error says why it is refused.
func (a *Ahead) Check(b Batch, nowMs int64) (Verdict, error) {
	dup, err := a.find(b.Producer, nowMs).checkKafka(b)
	if err != nil || dup == nil {
		return Verdict{}, err
	}
	return Verdict{Duplicate: true, Offset: dup.offset, AppendTime: dup.appendTime}, nil
}

// Prepared is what is known of records that are to be appended together.
type Prepared struct {
	// Offsets has, for each sequence, where its record is; New for one that is to
	// be written, or that repeats one of those.
	Offsets []int64
	// Expected is the producer's last sequence that this rests on.
	Expected Expected
}

// Prepare tells which records of a wide producer are new. An *Error says why they
// are refused.
func (a *Ahead) Prepare(producer int64, sequences []int64, nowMs int64) (Prepared, error) {
	s := a.find(producer, nowMs)
	offsets, err := s.evaluate(sequences)
	if err != nil {
		return Prepared{}, err
	}
	return Prepared{Offsets: offsets, Expected: s.expected()}, nil
}

// CheckGuarded tells whether batches of a wide producer may be appended: what the
// guard expects is still so, and they follow it and one another.
func (a *Ahead) CheckGuarded(expected Expected, batches []Batch, nowMs int64) error {
	if a.find(batches[0].Producer, nowMs).expected() != expected {
		return ErrStaleGuard
	}
	last, known := expected.Last, expected.Known
	for _, b := range batches {
		if b.Producer != batches[0].Producer || known && !follows(last, b.First) {
			return fmt.Errorf("%w: sequence %d does not follow %d", ErrBadBatch, b.First, last)
		}
		last, known = b.Last, true
	}
	return nil
}

// Add notes a batch that is appended.
func (a *Ahead) Add(b Batch, nowMs int64) {
	f := a.states[b.Producer]
	if f == nil {
		f = &flight{state: &state{}}
		if s := a.Table.find(b.Producer, nowMs); s != nil {
			f.state = s.clone()
		}
		if a.states == nil {
			a.states = map[int64]*flight{}
		}
		a.states[b.Producer] = f
	}
	f.add(b)
	f.batches++
	a.batches = append(a.batches, b)
}

// Applied notes that a batch is in the table now. Batches come in log order; one
// that was not added, since it is of an older leadership, is passed over.
func (a *Ahead) Applied(b Batch) {
	if len(a.batches) == 0 || a.batches[0].Offset != b.Offset {
		return
	}
	a.batches = a.batches[1:]
	if len(a.batches) == 0 {
		a.Clear()
		return
	}
	f := a.states[b.Producer]
	if f.batches--; f.batches == 0 {
		delete(a.states, b.Producer)
	}
}

// Len is how many batches are under way.
func (a *Ahead) Len() int { return len(a.batches) }

// Cut forgets all but the first n of the batches under way: the others were not
// appended after all.
func (a *Ahead) Cut(n int, nowMs int64) {
	kept := a.batches[:n]
	a.Clear()
	for _, b := range kept {
		a.Add(b, nowMs)
	}
}

// Clear forgets the batches under way.
func (a *Ahead) Clear() { a.batches, a.states = nil, nil }
