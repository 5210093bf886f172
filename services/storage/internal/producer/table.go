package producer

import (
	"cmp"
	"container/list"
	"slices"
	"time"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// Bounds limit what a partition remembers.
type Bounds struct {
	// Max is how many producers are known at most; the one that appended least
	// lately goes first. Zero is DefaultMax.
	Max int
	// Idle is how long a producer is known after its last append. Zero is
	// DefaultIdle.
	Idle time.Duration
}

// What is remembered when nothing else is asked for.
const (
	DefaultMax  = 10_000
	DefaultIdle = 7 * 24 * time.Hour
)

func (b Bounds) limit() int { return cmp.Or(b.Max, DefaultMax) }

func (b Bounds) idleMs() int64 { return cmp.Or(b.Idle, DefaultIdle).Milliseconds() }

// Table is the producers of one partition, as far as the log is committed. It has
// one owner. Without producers it costs nothing.
type Table struct {
	bounds Bounds
	// entries has the elements of order by producer id; nil until there is one.
	entries map[int64]*list.Element
	// order has an *entry for each producer, the one that appended last at the
	// back.
	order list.List
}

type entry struct {
	state
	producer     int64
	lastAppendMs int64
}

// NewTable returns a table without producers.
func NewTable(bounds Bounds) *Table { return &Table{bounds: bounds} }

// Apply takes in a committed batch, at a time in ms.
func (t *Table) Apply(b Batch, nowMs int64) {
	element, ok := t.entries[b.Producer]
	if ok {
		t.order.MoveToBack(element)
	} else {
		if t.entries == nil {
			t.entries = make(map[int64]*list.Element, 1)
		}
		element = t.order.PushBack(&entry{producer: b.Producer})
		t.entries[b.Producer] = element
	}
	e := element.Value.(*entry)
	e.add(b)
	e.lastAppendMs = nowMs
	t.expire(nowMs)
	for t.order.Len() > t.bounds.limit() {
		t.forgetOldest()
	}
}

// expire forgets those who were idle for too long.
func (t *Table) expire(nowMs int64) {
	for t.order.Len() > 0 && t.expired(t.order.Front().Value.(*entry), nowMs) {
		t.forgetOldest()
	}
}

func (t *Table) expired(e *entry, nowMs int64) bool {
	return nowMs-e.lastAppendMs >= t.bounds.idleMs()
}

func (t *Table) forgetOldest() {
	e := t.order.Remove(t.order.Front()).(*entry)
	delete(t.entries, e.producer)
	if len(t.entries) == 0 {
		t.entries = nil // a map never shrinks
	}
}

// find returns what is known of a producer at a time, or nil.
func (t *Table) find(producer, nowMs int64) *state {
	element, ok := t.entries[producer]
	if !ok {
		return nil
	}
	e := element.Value.(*entry)
	if t.expired(e, nowMs) {
		return nil
	}
	return &e.state
}

// Len is how many producers there are.
func (t *Table) Len() int { return t.order.Len() }

// Known is a producer as others see it.
type Known struct {
	Producer     int64
	Epoch        int16
	LastSequence int64
	LastOffset   int64
	LastAppendMs int64
}

// List returns the producers that are known at a time, ordered by id.
func (t *Table) List(nowMs int64) []Known {
	var all []Known
	for element := t.order.Front(); element != nil; element = element.Next() {
		e := element.Value.(*entry)
		if t.expired(e, nowMs) {
			continue
		}
		all = append(all, Known{
			Producer: e.producer, Epoch: e.epoch, LastSequence: e.last().last,
			LastOffset: e.lastOffset(), LastAppendMs: e.lastAppendMs,
		})
	}
	slices.SortFunc(all, func(a, b Known) int { return cmp.Compare(a.Producer, b.Producer) })
	return all
}

// Encode returns the table as points keep it, without those who have expired.
func (t *Table) Encode(nowMs int64) []*persistv1.ProducerState {
	t.expire(nowMs)
	if t.order.Len() == 0 {
		return nil
	}
	encoded := make([]*persistv1.ProducerState, 0, t.order.Len())
	for element := t.order.Front(); element != nil; element = element.Next() {
		e := element.Value.(*entry)
		p := &persistv1.ProducerState{
			ProducerId: e.producer, Epoch: int32(e.epoch), LastAppendMs: e.lastAppendMs, Known: e.known,
			Runs: make([]*persistv1.ProducerState_Run, len(e.runs)),
		}
		for i, r := range e.runs {
			p.Runs[i] = &persistv1.ProducerState_Run{
				FirstSequence: r.first, LastSequence: r.last, FirstOffset: r.offset, AppendTimeMs: r.appendTime,
			}
		}
		encoded = append(encoded, p)
	}
	return encoded
}

// Decode makes a table of what a point kept.
func Decode(bounds Bounds, encoded []*persistv1.ProducerState) (*Table, error) {
	t := NewTable(bounds)
	if len(encoded) == 0 {
		return t, nil
	}
	t.entries = make(map[int64]*list.Element, len(encoded))
	for _, p := range encoded {
		e := &entry{
			producer: p.GetProducerId(), lastAppendMs: p.GetLastAppendMs(),
			state: state{epoch: int16(p.GetEpoch()), known: p.GetKnown()},
		}
		for _, r := range p.GetRuns() {
			e.runs = append(e.runs, run{
				first: r.GetFirstSequence(), last: r.GetLastSequence(), offset: r.GetFirstOffset(), appendTime: r.GetAppendTimeMs(),
			})
		}
		if err := e.check(); err != nil {
			return nil, err
		}
		if t.entries[e.producer] != nil {
			return nil, errState("producer %d is there twice", e.producer)
		}
		t.entries[e.producer] = t.order.PushBack(e)
	}
	for t.order.Len() > t.bounds.limit() {
		t.forgetOldest()
	}
	return t, nil
}

// check refuses what Encode never returns.
func (e *entry) check() error {
	if len(e.runs) == 0 {
		return errState("producer %d has no record", e.producer)
	}
	wide := recordbatch.IsWide(e.producer)
	for i, r := range e.runs {
		switch {
		case r.first < 0 || r.last < 0 || r.offset < 0,
			wide && r.last < r.first,
			!wide && (r.first >= sequenceSpace || r.last >= sequenceSpace),
			i > 0 && wide && !follows(e.runs[i-1].last, r.first),
			i > 0 && !wide && wrap(e.runs[i-1].last+1) != r.first:
			return errState("producer %d has records %d to %d at %d", e.producer, r.first, r.last, r.offset)
		}
	}
	return nil
}
