package recordbatch

import "math"

// Producers with 64-bit sequences, which those of the HTTP API have, fit into the
// fields of an ordinary idempotent batch. The sequence of the first record is
// spread over three of them:
//
//	base sequence   31 bits   sequence bits 0..30
//	producer epoch  15 bits   sequence bits 31..45
//	producer id     bit 62 set, which tells the kind
//	                bits 44..61: sequence bits 46..63
//	                bits 0..43:  the producer's number
//
// So all of it is under the CRC, and other readers of the log see an idempotent
// batch like any. On disk: the layout must not change.
const (
	// WideProducer is the bit of a producer id that tells such a producer.
	WideProducer int64 = 1 << 62
	// MaxWideNumber is the largest number of one.
	MaxWideNumber int64 = 1<<44 - 1

	wideLowBits  = 31
	wideMidBits  = 15
	wideTopShift = 44
)

// PackWide returns the fields of a batch whose first record has a sequence of a
// numbered producer. Both must be in range: 0 to MaxWideNumber, and 0 and up.
func PackWide(number, sequence int64) Producer {
	top := sequence >> (wideLowBits + wideMidBits)
	return Producer{
		ID:           WideProducer | top<<wideTopShift | number,
		Epoch:        int16(sequence >> wideLowBits & (1<<wideMidBits - 1)),
		BaseSequence: int32(sequence & math.MaxInt32),
	}
}

// IsWide tells whether a producer id is one with 64-bit sequences.
func IsWide(producerID int64) bool { return producerID >= 0 && producerID&WideProducer != 0 }

// Wide returns the number of the batch's producer and the sequence of its first
// record. ok is false for a batch of another kind, and for one whose sequence is
// beyond what is ever given out.
func (h Header) Wide() (number, sequence int64, ok bool) {
	if !IsWide(h.ProducerID) || h.ProducerEpoch < 0 || h.BaseSequence < 0 {
		return 0, 0, false
	}
	top := h.ProducerID &^ WideProducer >> wideTopShift
	if top >= 1<<(63-wideLowBits-wideMidBits) {
		return 0, 0, false
	}
	return h.ProducerID & MaxWideNumber,
		top<<(wideLowBits+wideMidBits) | int64(h.ProducerEpoch)<<wideLowBits | int64(h.BaseSequence), true
}
