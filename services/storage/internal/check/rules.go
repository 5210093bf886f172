package check

import (
	"math"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// noTimestamp is the timestamp of a record that has none.
const noTimestamp = -1

// TimestampType is whose time records have (message.timestamp.type).
type TimestampType int8

// Whose time records have.
const (
	CreateTime TimestampType = iota // the producer's
	AppendTime                      // the leader's
)

// Rules are what a topic and the caller's part demand. DefaultRules has Kafka's
// defaults; the zero value allows no record to differ from the clock.
type Rules struct {
	// Origin is on whose behalf bytes are appended. All that are not a
	// coordinator are clients.
	Origin storagev1.Origin
	// SingleBatch refuses a second batch, as Kafka does in a produce request.
	SingleBatch bool

	// MaxBatchBytes bounds a batch as it came and as it is written
	// (max.message.bytes); 0 is no limit.
	MaxBatchBytes int
	// MaxRecordBytes bounds key, value and headers of one record; 0 is no limit.
	MaxRecordBytes int
	// MaxInflate bounds a batch's records when decompressed; 0 is
	// recordbatch.DefaultMaxInflate.
	MaxInflate int

	// Compacted refuses records without a key (cleanup.policy).
	Compacted bool
	// Codec is what batches are compressed with (compression.type); nil leaves
	// the producer's.
	Codec *recordbatch.Codec

	TimestampType TimestampType
	// TimestampAfterMaxMs is how far after the clock, TimestampBeforeMaxMs how
	// far before it a record's create time may be
	// (message.timestamp.after.max.ms, …before.max.ms); math.MaxInt64 is no limit. With
	// AppendTime they are not looked at.
	TimestampAfterMaxMs, TimestampBeforeMaxMs int64
}

// DefaultRules are Kafka's for a client and a topic without config, but for the
// size of a batch, which is bounded where the rules are made.
func DefaultRules() Rules {
	return Rules{
		Origin:               storagev1.Origin_ORIGIN_CLIENT,
		TimestampAfterMaxMs:  3_600_000,
		TimestampBeforeMaxMs: math.MaxInt64,
	}
}

// timestampRange returns the earliest and the latest create time that is allowed
// now.
func (r *Rules) timestampRange(now int64) (earliest, latest int64) {
	earliest, latest = math.MinInt64, math.MaxInt64
	if r.TimestampType == AppendTime {
		return earliest, latest
	}
	// now is a wall clock's and not negative, so the sums below cannot wrap
	// where they are made.
	if r.TimestampAfterMaxMs < math.MaxInt64-now {
		latest = now + r.TimestampAfterMaxMs
	}
	if r.TimestampBeforeMaxMs < math.MaxInt64 {
		earliest = now - r.TimestampBeforeMaxMs
	}
	return earliest, latest
}
