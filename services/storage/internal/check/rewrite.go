package check

import (
	"bytes"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// rewrite puts right what may be put right, in bytes of its own. The reader is
// still at the batch.
func (c *checker) rewrite(b *Batch) error {
	h := b.Header
	if c.rules.TimestampType == AppendTime {
		h.Attributes |= recordbatch.LogAppendTime
		b.MaxTimestamp, b.MaxTimestampOffsetDelta = c.now, 0 // all have the same
	}
	h.MaxTimestamp = b.MaxTimestamp

	recode := c.rules.Codec != nil && *c.rules.Codec != h.Attributes.Codec()
	switch {
	case recode:
		recoded, err := c.reader.Recode(*c.rules.Codec)
		if err != nil {
			return c.batchError(err)
		}
		if err := c.checkSize(len(recoded)); err != nil {
			return err
		}
		h.Attributes = h.Attributes.WithCodec(*c.rules.Codec)
		b.Bytes = recoded
	case h != b.Header:
		b.Bytes = bytes.Clone(b.Bytes)
	default:
		return nil
	}
	b.Header = recordbatch.Seal(b.Bytes, h)
	return nil
}
