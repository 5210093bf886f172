package recordbatch_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// A batch as in the project's benchmarks: 500 records of 256 bytes.
const (
	benchRecords = 500
	benchValue   = 256
)

func benchBatch(b *testing.B, codec recordbatch.Codec) []byte {
	b.Helper()
	builder := recordbatch.NewBuilder(recordbatch.Options{Codec: codec})
	value := bytes.Repeat([]byte("value of a record, as it goes. "), 9)[:benchValue]
	for i := range benchRecords {
		builder.Append(1_700_000_000_000+int64(i), nil, value, nil)
	}
	batch, err := builder.Finish()
	require.NoError(b, err)
	return batch
}

func BenchmarkBuild(b *testing.B) {
	value := bytes.Repeat([]byte{'v'}, benchValue)
	builder := recordbatch.NewBuilder(recordbatch.Options{SizeHint: 140 << 10})
	b.ReportAllocs()
	for b.Loop() {
		for range benchRecords {
			builder.Append(1_700_000_000_000, nil, value, nil)
		}
		if _, err := builder.Finish(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for _, codec := range codecs {
		b.Run(codec.String(), func(b *testing.B) {
			batch := benchBatch(b, codec)
			var r recordbatch.Reader
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Reset(batch, recordbatch.Limits{}); err != nil {
					b.Fatal(err)
				}
				for r.Next() {
				}
				if r.Err() != nil {
					b.Fatal(r.Err())
				}
			}
		})
	}
}

func BenchmarkParseHeader(b *testing.B) {
	batch := benchBatch(b, recordbatch.None)
	for b.Loop() {
		if _, err := recordbatch.ParseHeader(batch); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckCRC(b *testing.B) {
	batch := benchBatch(b, recordbatch.None)
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		if err := recordbatch.CheckCRC(batch); err != nil {
			b.Fatal(err)
		}
	}
}
