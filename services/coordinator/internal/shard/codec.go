package shard

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// encode builds one record batch: keys are persist.v1.ShardKey, values
// persist.v1.ShardValue, or null where the key is removed. It is on disk: it
// must not change. Keys are marshalled deterministically, since compaction
// compares their bytes.
func encode(nowMs int64, records []Record) ([]byte, error) {
	b := recordbatch.NewBuilder(recordbatch.Options{SizeHint: sizeOf(records)})
	for _, r := range records {
		key, err := proto.MarshalOptions{Deterministic: true}.Marshal(r.Key)
		if err != nil {
			return nil, fmt.Errorf("encode the key of a shard's record: %w", err)
		}
		var value []byte
		if r.Value != nil {
			if value, err = proto.Marshal(r.Value); err != nil {
				return nil, fmt.Errorf("encode the value of a shard's record: %w", err)
			}
			if value == nil {
				value = []byte{} // empty is not null
			}
		}
		b.Append(nowMs, key, value, nil)
	}
	batch, err := b.Finish()
	if err != nil {
		return nil, fmt.Errorf("build a shard's batch: %w", err)
	}
	return batch, nil
}

// decode reads the records of whole batches from an offset on, and returns the
// offset after them. What it cannot read is ErrBadLog: a record that a newer
// version wrote must not be lost by an older one.
func decode(batches []byte, from int64) (records []Record, next int64, err error) {
	next = from
	for len(batches) > 0 {
		h, err := recordbatch.ParseHeader(batches)
		if err != nil {
			return nil, 0, badLog(next, err)
		}
		if h.Size() > len(batches) {
			return nil, 0, badLog(h.BaseOffset, recordbatch.ErrTruncated)
		}
		batch := batches[:h.Size()]
		batches = batches[h.Size():]
		if h.NextOffset() > next {
			next = h.NextOffset()
		}
		if h.Attributes.Control() {
			continue
		}
		for record, err := range recordbatch.Records(batch, recordbatch.Limits{}) {
			if err != nil {
				return nil, 0, badLog(h.BaseOffset, err)
			}
			if record.Offset < from {
				continue
			}
			r, err := decodeRecord(record)
			if err != nil {
				return nil, 0, badLog(record.Offset, err)
			}
			records = append(records, r)
		}
	}
	return records, next, nil
}

func decodeRecord(record recordbatch.Record) (Record, error) {
	r := Record{Key: &persistv1.ShardKey{}}
	if err := proto.Unmarshal(record.Key, r.Key); err != nil {
		return Record{}, fmt.Errorf("key: %w", err)
	}
	if r.Key.Kind == nil {
		return Record{}, fmt.Errorf("key of a kind that this version does not know")
	}
	if record.Value == nil {
		return r, nil
	}
	r.Value = &persistv1.ShardValue{}
	if err := proto.Unmarshal(record.Value, r.Value); err != nil {
		return Record{}, fmt.Errorf("value: %w", err)
	}
	return r, nil
}

func badLog(offset int64, err error) error {
	return ErrBadLog.Because(fmt.Errorf("at offset %d: %w", offset, err))
}
