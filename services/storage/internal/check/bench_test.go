package check_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/check"
)

func BenchmarkCheck(b *testing.B) {
	now := time.Now()
	for _, shape := range []struct {
		codec   recordbatch.Codec
		records int
	}{{recordbatch.None, 1}, {recordbatch.None, 500}, {recordbatch.LZ4, 500}, {recordbatch.Zstd, 500}} {
		b.Run(fmt.Sprintf("%s/records=%d", shape.codec, shape.records), func(b *testing.B) {
			builder := recordbatch.NewBuilder(recordbatch.Options{Codec: shape.codec})
			value := bytes.Repeat([]byte("value of a record, as it goes.  "), 8)
			for range shape.records {
				builder.Append(now.UnixMilli(), nil, value, nil)
			}
			batch, err := builder.Finish()
			require.NoError(b, err)
			rules := check.DefaultRules()
			var room [1]check.Batch
			b.ReportAllocs()
			for b.Loop() {
				if _, err := check.Check(room[:0], batch, rules, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
