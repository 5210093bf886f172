package apijson_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/apijson"
)

// 500 records of 256 bytes, as in the figures of the project's design.
const (
	benchRecords = 500
	benchValue   = 256
)

func BenchmarkUnmarshalProduce(b *testing.B) {
	type record struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	var request struct {
		Records []record `json:"records"`
	}
	for i := range benchRecords {
		value := bytes.Repeat([]byte("0123456789abcdef"), benchValue/16)
		request.Records = append(request.Records, record{fmt.Sprintf("user-%d", i), string(value)})
	}
	body, err := json.Marshal(request)
	require.NoError(b, err)
	scratch := make([]byte, len(body))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		copy(scratch, body)
		if err := apijson.Unmarshal(scratch, &logv1.ProduceRequest{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendConsumed(b *testing.B) {
	m := &logv1.ConsumeResponse{NextOffset: benchRecords, HighWatermark: benchRecords}
	for i := range benchRecords {
		m.Records = append(m.Records, &logv1.Record{
			Offset: int64(i), TimestampMs: 1763500000000,
			Key: fmt.Appendf(nil, "user-%d", i), Value: bytes.Repeat([]byte("0123456789abcdef"), benchValue/16),
		})
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = apijson.Append(buf[:0], m, apijson.Style{}); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkAppendProduced(b *testing.B) {
	m := &logv1.ProduceResponse{}
	for i := range benchRecords {
		m.Results = append(m.Results, &logv1.ProduceResult{Partition: int32(i % 6), Offset: int64(1000000 + i)})
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = apijson.Append(buf[:0], m, apijson.Style{}); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(buf)))
}
