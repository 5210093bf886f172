package replica_test

import (
	"errors"
	"math"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/producer"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// simProducer is an idempotent producer as its client sees it: it sends one
// request at a time, again and again until it is answered, at whoever leads, also
// while an earlier attempt is still under way.
type simProducer struct {
	wide bool
	id   int64
	// first is the sequence of its first record, next that of the request to
	// come.
	first, next int64
	// request is what is to be written, empty when all is answered.
	request []int64
	// guard came with a Prepare to the present request.
	guard *replica.Prepared
	// rounds tells answers to the present request from late ones.
	rounds int
	// offsets are where records are, by sequence, as it was told.
	offsets map[int64]int64
}

func (s *sim) addProducers() {
	for i, first := range []int64{0, 1<<46 - 40, math.MaxInt64 - 10_000} {
		s.producers = append(s.producers, &simProducer{wide: true, id: recordbatch.WideProducer | int64(i), first: first})
	}
	for i, first := range []int64{0, math.MaxInt32 - 20} {
		s.producers = append(s.producers, &simProducer{id: int64(i), first: first})
	}
	for _, p := range s.producers {
		p.next, p.offsets = p.first, map[int64]int64{}
	}
}

// produce lets one producer do one step at every replica that takes it.
func (s *sim) produce() {
	p := s.producers[s.rng.IntN(len(s.producers))]
	for _, leader := range s.nodes {
		if leader.r.View().Serves {
			s.producerStep(p, leader)
		}
	}
}

func (s *sim) producerStep(p *simProducer, n *simNode) {
	if len(p.request) == 0 {
		for range 1 + s.rng.IntN(4) {
			p.request = append(p.request, p.next)
			p.next++
		}
		if p.wide && s.rng.IntN(4) == 0 {
			// Some that were written before, and one twice.
			for range min(int64(s.rng.IntN(5)), p.request[0]-p.first) {
				p.request = append([]int64{p.request[0] - 1}, p.request...)
			}
			p.request = append(p.request, p.request[len(p.request)-1])
		}
		p.rounds++
		p.guard = nil
	}
	if p.wide {
		s.wideStep(p, n)
	} else {
		s.kafkaStep(p, n)
	}
}

// sequenced is a batch of some records of a producer, of a sequence each.
func (s *sim) sequenced(p *simProducer, first int64, count int) ([]byte, producer.Batch) {
	batch := s.batch(math.MaxUint64, count)
	header, err := recordbatch.ParseHeader(batch)
	require.NoError(s.t, err)
	if p.wide {
		packed := recordbatch.PackWide(p.id&^recordbatch.WideProducer, first)
		header.ProducerID, header.ProducerEpoch, header.BaseSequence = packed.ID, packed.Epoch, packed.BaseSequence
	} else {
		header.ProducerID, header.ProducerEpoch, header.BaseSequence = p.id, 3, int32(first%(1<<31))
	}
	header = recordbatch.Seal(batch, header)
	b, ok, err := producer.Of(header)
	require.True(s.t, ok && err == nil)
	return batch, b
}

// told notes where a record is; it must never be in two places.
func (s *sim) told(p *simProducer, sequence, offset int64) {
	known, ok := p.offsets[sequence]
	require.True(s.t, !ok || known == offset, "producer %d: sequence %d was at %d and is at %d", p.id, sequence, known, offset)
	p.offsets[sequence] = offset
}

func (s *sim) wideStep(p *simProducer, n *simNode) {
	if p.guard == nil || s.rng.IntN(4) == 0 {
		round := p.rounds
		n.r.Prepare(&replica.Preparation{Producer: p.id, Sequences: p.request, Done: func(prepared replica.Prepared) {
			if round != p.rounds {
				return
			}
			p.guard = nil
			if prepared.Err != nil {
				var refused *producer.Error
				require.False(s.t, errors.As(prepared.Err, &refused), "producer %d: %v", p.id, prepared.Err)
				return
			}
			p.guard = &prepared
		}})
		s.say("producer %d prepares %v at %d", p.id, p.request, n.id)
		s.after(n)
		return
	}
	prepared := p.guard
	if s.rng.IntN(3) > 0 {
		// Else the same append may come again, as from a client that is at two
		// leaders at once.
		p.guard = nil
	}
	fresh, count := int64(0), 0
	for i, offset := range prepared.Offsets {
		if offset != producer.New {
			s.told(p, p.request[i], offset)
			continue
		}
		if count == 0 {
			fresh = p.request[i]
		}
		if p.request[i] == fresh+int64(count) {
			count++
		}
	}
	if count == 0 {
		p.request = nil
		return
	}
	// Perhaps in two batches, which may come apart in a crash.
	sizes := []int{count}
	if count > 1 && s.rng.IntN(2) == 0 {
		sizes = []int{1, count - 1}
	}
	proposal := &replica.Proposal{OwnerEpoch: replica.NoOwner, Producer: &replica.Sequenced{Guard: prepared.Guard}}
	next := fresh
	for _, size := range sizes {
		batch, b := s.sequenced(p, next, size)
		proposal.Batches, proposal.Producer.Batches = append(proposal.Batches, batch), append(proposal.Producer.Batches, b)
		next += int64(size)
	}
	round := p.rounds
	proposal.Done = func(result replica.Result) {
		if result.Err != nil || round != p.rounds {
			return
		}
		for i := range count {
			s.told(p, fresh+int64(i), result.BaseOffset+int64(i))
		}
		p.request = nil
	}
	s.say("producer %d appends %d from %d on at %d", p.id, count, fresh, n.id)
	require.NoError(s.t, n.r.Propose([]*replica.Proposal{proposal}))
	s.after(n)
}

func (s *sim) kafkaStep(p *simProducer, n *simNode) {
	batch, b := s.sequenced(p, p.request[0], len(p.request))
	round, request := p.rounds, p.request
	proposal := &replica.Proposal{
		OwnerEpoch: replica.NoOwner, Batches: [][]byte{batch},
		Producer: &replica.Sequenced{Batches: []producer.Batch{b}},
	}
	proposal.Done = func(result replica.Result) {
		var refused *producer.Error
		require.False(s.t, round == p.rounds && errors.As(result.Err, &refused), "producer %d: %v", p.id, result.Err)
		if result.Err != nil {
			return
		}
		for i, sequence := range request {
			s.told(p, sequence, result.BaseOffset+int64(i))
		}
		if round == p.rounds {
			p.request = nil
		}
	}
	s.say("producer %d appends %v at %d", p.id, request, n.id)
	require.NoError(s.t, n.r.Propose([]*replica.Proposal{proposal}))
	s.after(n)
}

// finishProducers has every producer get its answer.
func (s *sim) finishProducers() {
	for _, p := range s.producers {
		p.guard = nil
		for tries := 0; len(p.request) > 0; tries++ {
			require.Less(s.t, tries, 1000, "producer %d is never answered", p.id)
			if !s.produceAt(p) {
				s.settle() // a late vote has deposed the leader
			}
		}
	}
}

// produceAt lets a producer do one step at whoever leads, if anybody does.
func (s *sim) produceAt(p *simProducer) (led bool) {
	for _, leader := range s.nodes {
		if leader.r.View().Serves && len(p.request) > 0 {
			led = true
			s.producerStep(p, leader)
		}
	}
	for len(s.wire) > 0 {
		m := s.wire[0]
		s.wire = s.wire[1:]
		s.receive(m)
	}
	return led
}

// checkProducers looks that each record is in the log once and where its producer
// was told, and that every replica, were it to lead, would know it again.
func (s *sim) checkProducers() {
	byID := map[int64]*simProducer{}
	for _, p := range s.producers {
		byID[p.id] = p
		for sequence := p.first; sequence < p.next; sequence++ {
			require.Contains(s.t, p.offsets, sequence, "producer %d", p.id)
		}
	}
	for base, batch := range s.committed {
		header, err := recordbatch.ParseHeader(batch)
		require.NoError(s.t, err)
		b, ok, err := producer.Of(header)
		require.NoError(s.t, err)
		if !ok {
			continue
		}
		p := byID[b.Producer]
		for i := range int64(header.Count) {
			sequence := b.First + i
			if !p.wide && sequence < p.first {
				sequence += 1 << 31 // it has wrapped around
			}
			require.Equal(s.t, p.offsets[sequence], base+i, "producer %d: sequence %d is twice in the log", p.id, sequence)
		}
	}
	for _, n := range s.nodes {
		for len(s.wire) > 0 {
			m := s.wire[0]
			s.wire = s.wire[1:]
			s.receive(m)
		}
		s.lead(n)
		for _, p := range s.producers {
			if !p.wide || p.next == p.first {
				continue
			}
			var sequences, offsets []int64
			for sequence := max(p.first, p.next-producer.Window); sequence < p.next; sequence++ {
				sequences, offsets = append(sequences, sequence), append(offsets, p.offsets[sequence])
			}
			answered := false
			n.r.Prepare(&replica.Preparation{Producer: p.id, Sequences: sequences, Done: func(prepared replica.Prepared) {
				answered = true
				require.NoError(s.t, prepared.Err, "replica %d, producer %d", n.id, p.id)
				require.Equal(s.t, offsets, prepared.Offsets, "replica %d, producer %d", n.id, p.id)
				require.Equal(s.t, uuid.Nil, uuid.UUID(prepared.Guard.Topic))
			}})
			require.True(s.t, answered)
		}
	}
}

// lead makes a node serve.
func (s *sim) lead(n *simNode) {
	for range 100 {
		if n.r.View().Serves {
			return
		}
		s.campaign(n)
		for len(s.wire) > 0 {
			m := s.wire[0]
			s.wire = s.wire[1:]
			s.receive(m)
		}
	}
	s.t.Fatalf("replica %d never leads", n.id)
}
