package recordbatch

// Attributes are the flags of a batch. On disk and on the wire; the bits must
// not change.
type Attributes int16

const (
	codecMask Attributes = 0x07

	// LogAppendTime says that all records have the max timestamp, which is when
	// the leader appended them.
	LogAppendTime Attributes = 1 << 3
	// Transactional says that committed-only readers see the batch once a marker
	// commits it.
	Transactional Attributes = 1 << 4
	// Control says that the one record is a transaction marker, which no reader
	// sees.
	Control Attributes = 1 << 5
	// HorizonSet says that the base timestamp is the horizon until which
	// compaction keeps tombstones and markers (KIP-534).
	HorizonSet Attributes = 1 << 6
)

// Codec is the compression of the records. It may be one that is not known.
func (a Attributes) Codec() Codec { return Codec(a & codecMask) }

// WithCodec returns the attributes with another codec.
func (a Attributes) WithCodec(c Codec) Attributes { return a&^codecMask | Attributes(c)&codecMask }

// LogAppendTime tells whether the records have the leader's time.
func (a Attributes) LogAppendTime() bool { return a&LogAppendTime != 0 }

// Transactional tells whether the batch is part of a transaction.
func (a Attributes) Transactional() bool { return a&Transactional != 0 }

// Control tells whether the batch is a transaction marker.
func (a Attributes) Control() bool { return a&Control != 0 }

// HorizonSet tells whether the base timestamp is a deletion horizon.
func (a Attributes) HorizonSet() bool { return a&HorizonSet != 0 }
