package check_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/check"
)

func BenchmarkCheck(b *testing.B) {
	now := time.Now()
	for _, codec := range []recordbatch.Codec{recordbatch.None, recordbatch.LZ4, recordbatch.Zstd} {
		b.Run(codec.String(), func(b *testing.B) {
			builder := recordbatch.NewBuilder(recordbatch.Options{Codec: codec})
			value := bytes.Repeat([]byte("value of a record, as it goes.  "), 8)
			for range 500 {
				builder.Append(now.UnixMilli(), nil, value, nil)
			}
			batch, err := builder.Finish()
			require.NoError(b, err)
			rules := check.DefaultRules()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := check.Check(nil, batch, rules, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
