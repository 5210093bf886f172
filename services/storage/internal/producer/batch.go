package producer

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// ErrBadBatch is a batch whose sequences no producer can have.
var ErrBadBatch = errors.New("sequences of the batch are out of range")

// NoTime is the append time of a batch that has its producer's timestamps.
const NoTime int64 = -1

// Batch is what the header of a batch says of its producer.
type Batch struct {
	// Producer is the id; of a wide producer without the bits that are part of
	// the sequence.
	Producer int64
	// Epoch is 0 of a wide producer.
	Epoch int16
	// First and Last are the sequences of the first and the last record. Of
	// Kafka's kind Last may have wrapped around.
	First, Last int64
	// Offset is that of the first record.
	Offset int64
	// AppendTime is the log-append time in ms, or NoTime.
	AppendTime int64
}

// Of reads a batch's header. ok is false for a batch without a producer, and for
// a control batch, which has no sequence.
func Of(h recordbatch.Header) (b Batch, ok bool, err error) {
	if h.ProducerID < 0 || h.Attributes.Control() {
		return Batch{}, false, nil
	}
	b = Batch{Producer: h.ProducerID, Epoch: h.ProducerEpoch, Offset: h.BaseOffset, AppendTime: NoTime}
	if h.Attributes.LogAppendTime() {
		b.AppendTime = h.MaxTimestamp
	}
	if !recordbatch.IsWide(h.ProducerID) {
		if h.BaseSequence < 0 || h.ProducerEpoch < 0 {
			return Batch{}, false, fmt.Errorf("%w: epoch %d, sequence %d", ErrBadBatch, h.ProducerEpoch, h.BaseSequence)
		}
		b.First, b.Last = int64(h.BaseSequence), wrap(int64(h.BaseSequence)+int64(h.LastOffsetDelta))
		return b, true, nil
	}
	number, first, ok := h.Wide()
	if !ok || int64(h.LastOffsetDelta) > math.MaxInt64-first {
		return Batch{}, false, fmt.Errorf("%w: producer %d, sequence %d", ErrBadBatch, h.ProducerID, h.BaseSequence)
	}
	b.Producer, b.Epoch = recordbatch.WideProducer|number, 0
	b.First, b.Last = first, first+int64(h.LastOffsetDelta)
	return b, true, nil
}

// Wide tells that sequences are of 64 bits.
func (b Batch) Wide() bool { return recordbatch.IsWide(b.Producer) }

// sequenceSpace is how many sequences Kafka's kind has.
const sequenceSpace = 1 << 31

// wrap returns the sequence of Kafka's kind that n stands for.
func wrap(n int64) int64 { return (n + sequenceSpace) % sequenceSpace }
