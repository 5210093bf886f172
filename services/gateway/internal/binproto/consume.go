package binproto

import (
	"encoding/binary"
	"math"

	"github.com/sluiceio/sluice/services/gateway/internal/backend"
)

// consumeSize is what follows the topic of a consume: partition u32, offset u64,
// max_records u32, max_bytes u32.
const consumeSize = 4 + 8 + 4 + 4

// parseConsume reads what follows the topic. Numbers that no partition and no
// offset can have stay such numbers, for the backend to refuse.
func parseConsume(b []byte, topic string) backend.Read {
	return backend.Read{
		Topic:      topic,
		Partition:  int32(min(binary.BigEndian.Uint32(b), math.MaxInt32)),
		Offset:     int64(min(binary.BigEndian.Uint64(b[4:]), math.MaxInt64)),
		MaxRecords: int(min(binary.BigEndian.Uint32(b[12:]), math.MaxInt32)),
		MaxBytes:   int(min(binary.BigEndian.Uint32(b[16:]), math.MaxInt32)),
	}
}

// fetchedHead and fetchedRecord are what an answer takes beside keys and values.
const (
	fetchedHead   = 8 + 8 + 4
	fetchedRecord = 4 + 8 + 8 + 4 + 4
)

// fetchedSize is how many bytes appendFetched writes.
func fetchedSize(f *backend.Fetched) int {
	size := fetchedHead + len(f.Records)*fetchedRecord
	for i := range f.Records {
		size += len(f.Records[i].Key) + len(f.Records[i].Value)
	}
	return size
}

// appendFetched writes the answer to a consume:
//
//	next_offset u64  high_watermark u64  count u32
//	per record:
//	  partition u32  offset u64  timestamp_ms i64
//	  key_len i32 (-1 = no key)  key  value_len u32  value
func appendFetched(b []byte, partition int32, f *backend.Fetched) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(f.NextOffset))
	b = binary.BigEndian.AppendUint64(b, uint64(f.HighWatermark))
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.Records)))
	for i := range f.Records {
		r := &f.Records[i]
		b = binary.BigEndian.AppendUint32(b, uint32(partition))
		b = binary.BigEndian.AppendUint64(b, uint64(r.Offset))
		b = binary.BigEndian.AppendUint64(b, uint64(r.TimestampMs))
		if r.Key == nil {
			b = binary.BigEndian.AppendUint32(b, math.MaxUint32)
		} else {
			b = binary.BigEndian.AppendUint32(b, uint32(len(r.Key)))
			b = append(b, r.Key...)
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(r.Value)))
		b = append(b, r.Value...)
	}
	return b
}
