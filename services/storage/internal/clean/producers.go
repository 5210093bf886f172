package clean

import "github.com/sluiceio/sluice/services/kit/recordbatch"

// Producers knows the last batch of each producer, of those that it was told of.
// Beyond a number of producers it calls every batch a last one.
type Producers struct {
	last map[int64]int64 // base offset by producer id
	most int
}

// NewProducers remembers so many producers.
func NewProducers(most int) *Producers {
	return &Producers{last: map[int64]int64{}, most: most}
}

// Note tells of a batch; those of a producer come in the order of their offsets.
func (p *Producers) Note(h recordbatch.Header) {
	if h.ProducerID < 0 {
		return
	}
	if _, known := p.last[h.ProducerID]; known || len(p.last) < p.most {
		p.last[h.ProducerID] = h.BaseOffset
	}
}

// Last says whether a batch that was noted is, or may be, its producer's last.
func (p *Producers) Last(h recordbatch.Header) bool {
	if h.ProducerID < 0 {
		return false
	}
	base, known := p.last[h.ProducerID]
	return !known || base == h.BaseOffset
}
