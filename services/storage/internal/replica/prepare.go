package replica

import (
	"fmt"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/producer"
)

// Preparation asks which of some records of a wide producer are new.
type Preparation struct {
	// Producer is the id, without the bits that are part of a sequence.
	Producer int64
	// Sequences are those of the records, in their order.
	Sequences []int64
	// Done is called once, by the replica's owner. It must not block.
	Done func(Prepared)
}

// Prepared is the answer to a preparation.
type Prepared struct {
	// Err is nil, why the replica takes no appends, or a *producer.Error.
	Err error
	// Guard goes with the append of the records that are new. It is good while
	// nothing else of the producer is appended, in this leadership.
	Guard producer.Guard
	// Offsets are those of producer.Prepared. Records that have one are
	// committed.
	Offsets []int64
}

// Prepare checks records before any of them is appended. It is answered at once,
// or, when some are under way already, with them: then after a Run. As with
// Propose, Run must have returned since the last Propose or Step.
func (r *Replica) Prepare(p *Preparation) {
	if err := r.refusal(); err != nil {
		p.Done(Prepared{Err: err})
		return
	}
	found, err := r.ahead.Prepare(p.Producer, p.Sequences, r.options.Now().UnixMilli())
	if err != nil {
		p.Done(Prepared{Err: err})
		return
	}
	prepared := Prepared{Offsets: found.Offsets, Guard: producer.Guard{
		Topic: r.options.Key.Topic, Partition: r.options.Key.Partition, Term: r.term,
		Producer: p.Producer, Expected: found.Expected,
	}}
	last, err := r.log.LastIndex()
	if err != nil {
		p.Done(Prepared{Err: err})
		return
	}
	// Waits behind all that is under way, unless what it tells of is committed. An
	// original that is lost again was never told of.
	committed := true
	for _, offset := range found.Offsets {
		committed = committed && offset < r.highWatermark
	}
	if committed {
		p.Done(prepared)
		return
	}
	r.wait(pending{term: r.term, last: last, proposal: &Proposal{
		Done: func(result Result) {
			if result.Err != nil {
				// Nothing was appended for it.
				result.Err = fmt.Errorf("%w: while originals were under way", ErrNotReady)
			}
			prepared.Err = result.Err
			p.Done(prepared)
		},
	}})
}

// checkProducer checks a proposal's batches against all that is appended.
func (r *Replica) checkProducer(s *Sequenced, nowMs int64) (producer.Verdict, error) {
	if !s.Batches[0].Wide() {
		return r.ahead.Check(s.Batches[0], nowMs)
	}
	g := s.Guard
	if g.Topic != r.options.Key.Topic || g.Partition != r.options.Key.Partition || g.Term != r.term || g.Producer != s.Batches[0].Producer {
		return producer.Verdict{}, producer.ErrStaleGuard
	}
	return producer.Verdict{}, r.ahead.CheckGuarded(g.Expected, s.Batches, nowMs)
}

// original has a duplicate wait for all that was appended before it, so that it
// is answered only when its original is committed.
func (r *Replica) original(p *Proposal, verdict producer.Verdict, last uint64) pending {
	return pending{
		proposal: p, term: r.term, last: last,
		base: verdict.Offset, end: verdict.Offset + int64(batchRecords(p.Batches[0])),
		duplicate: true, appendTime: verdict.AppendTime,
	}
}

// applyProducer notes the producer of a committed batch, if it has one.
func (r *Replica) applyProducer(header []byte) error {
	if !hasProducer(header) {
		return nil
	}
	h, err := recordbatch.ParseHeader(header)
	if err != nil {
		return fmt.Errorf("header of a committed batch: %w", err)
	}
	b, ok, err := producer.Of(h)
	if err != nil || !ok {
		return err
	}
	r.ahead.Table.Apply(b, r.options.Now().UnixMilli())
	r.ahead.Applied(b)
	return nil
}

// Producers returns what the applied state knows of producers.
func (r *Replica) Producers() []producer.Known {
	return r.ahead.Table.List(r.options.Now().UnixMilli())
}
