package binary

import "fmt"

// Record is a record to write.
type Record struct {
	// Nil is no key; an empty key is a key.
	Key []byte
	// Empty is a tombstone on a compacted topic.
	Value []byte
	// The zero value leaves the choice to the key, and without one to the server.
	Partition Partition
	// The zero value is none.
	Sequence Sequence
}

// Partition is a partition that was chosen, or the zero value.
type Partition struct {
	number int32
	chosen bool
}

// To chooses a partition.
func To(number int32) Partition { return Partition{number, true} }

// Sequence is a position in what a producer writes to a partition, or the zero
// value.
type Sequence struct {
	number int64
	given  bool
}

// Seq is the position of a record in what its producer writes to the partition;
// each is one more than the last.
func Seq(number int64) Sequence { return Sequence{number, true} }

// Produce is a request to write records to a topic. It is one write for each
// partition, and all of it is checked before anything is written.
type Produce struct {
	Topic string
	// ProducerID names an idempotent producer; empty is none.
	ProducerID string
	Records    []Record
}

// Placed is where a record stands.
type Placed struct {
	Partition int32
	Offset    int64
	// Duplicate is that the record had been written before, at this offset.
	Duplicate bool
}

// Consume is a request to read a partition from an offset.
type Consume struct {
	Topic     string
	Partition int32
	// Offset is where to begin; below the first record that is kept it counts as
	// that.
	Offset int64
	// MaxRecords is 100 when it is 0.
	MaxRecords int
	// MaxBytes is 1 MiB when it is 0. A first record comes whole even if it is
	// larger.
	MaxBytes int
}

const (
	defaultRecords = 100
	defaultBytes   = 1 << 20
)

// Fetched is what was read. Its records share memory with each other.
type Fetched struct {
	Records []Stored
	// NextOffset is where to go on. Offsets have gaps, so it is not to be
	// computed.
	NextOffset int64
	// HighWatermark is the offset after the last record that is on a majority.
	HighWatermark int64
}

// Stored is a record as it was read.
type Stored struct {
	Partition   int32
	Offset      int64
	TimestampMs int64
	// Nil is no key.
	Key   []byte
	Value []byte
}

// repeatable says whether the request can be sent twice and is written once.
func (p *Produce) repeatable() bool {
	if p.ProducerID == "" {
		return false
	}
	for i := range p.Records {
		if !p.Records[i].Sequence.given {
			return false
		}
	}
	return true
}

// unknown is that nobody can tell what became of the request.
func (p *Produce) unknown(cause error) error {
	return &OutcomeUnknownError{Topic: p.Topic, Records: len(p.Records), Err: cause}
}

func (p *Produce) check() error {
	if err := checkTopic(p.Topic); err != nil {
		return err
	}
	for i := range p.Records {
		r := &p.Records[i]
		switch {
		case int64(len(r.Key)) > maxLength || int64(len(r.Value)) > maxLength:
			return fmt.Errorf("%w: records[%d] has more bytes than a frame can say", ErrInvalid, i)
		case r.Partition.chosen && r.Partition.number < 0:
			return fmt.Errorf("%w: records[%d] has partition %d, expected 0 or more", ErrInvalid, i, r.Partition.number)
		case r.Sequence.given && r.Sequence.number == noSequence:
			return fmt.Errorf("%w: records[%d] has a sequence that stands for none", ErrInvalid, i)
		}
	}
	if size := produceSize(p); size > maxLength-headSize {
		return fmt.Errorf("%w: the request takes %d bytes, more than a frame can say", ErrInvalid, size)
	}
	return nil
}

func (c *Consume) check() error {
	if err := checkTopic(c.Topic); err != nil {
		return err
	}
	if c.Partition < 0 || c.Offset < 0 || c.MaxRecords < 0 || c.MaxBytes < 0 || int64(c.MaxRecords) > maxLength || int64(c.MaxBytes) > maxLength {
		return fmt.Errorf("%w: partition, offset and limits must be 0 or more and limits at most %d", ErrInvalid, int64(maxLength))
	}
	return nil
}

func checkTopic(topic string) error {
	if len(topic) > maxTopic {
		return fmt.Errorf("%w: a topic has at most %d bytes, got %d", ErrInvalid, maxTopic, len(topic))
	}
	return nil
}
