package apijson_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/apijson"
)

func FuzzProduce(f *testing.F) {
	for _, seed := range []string{
		`{"records":[{"key":"user-1","value":"checkout"},{"key":"user-2","value":"signup"}]}`,
		`{"producer_id":"checkout-svc-1","records":[{"key":"abc","value":"…","partition":0,"sequence":42}]}`,
		`{"records":[{"value":"\ud83d\ude00\n\u0000"},{"value":null,"partition":-1}],"records":null}`,
		`{"x":[[[{}]]],"records":[{"partition":1.0}]}`,
		`{"records":[{"value":"\ud800"}]}`,
		"{\"records\":[{\"value\":\"\xff\"}]}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		fast, slow := &logv1.ProduceRequest{}, &logv1.ProduceRequest{}
		fastErr := apijson.Unmarshal(bytes.Clone(body), fast)
		slowErr := apijson.UnmarshalReflective(bytes.Clone(body), slow)
		want, oracleErr := oracleProduce(body)
		if fastErr == nil {
			require.NoError(t, oracleErr)
			require.True(t, proto.Equal(want, fast), "want %v, got %v", want, fast)
		} else if !lenient(body, fastErr) {
			require.Error(t, oracleErr)
		}
		// The topic is a field to the one and an unknown name to the other.
		if !bytes.Contains(body, []byte(`topic`)) && !bytes.Contains(body, []byte(`\u`)) {
			require.Equal(t, fastErr, slowErr)
			if slowErr == nil {
				require.True(t, proto.Equal(fast, slow), "fast %v, slow %v", fast, slow)
			}
		}
	})
}

func FuzzTopicConfig(f *testing.F) {
	for _, seed := range []string{
		`{"retention_ms":86400000,"retention_bytes":1073741824,"cleanup_policy":"delete","segment_bytes":67108864,"tombstone_retention_ms":86400000}`,
		`{"retention_bytes":null,"max.message.bytes":"5","x":null}`,
		`{"retention_ms":-1,"segment_bytes":1e3}`,
		`{"a":"1","a":"2"} `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := &logv1.TopicConfig{}
		err := apijson.Unmarshal(bytes.Clone(body), got)
		want, oracleErr := oracleConfig(body)
		if err != nil {
			if !lenient(body, err) {
				require.Error(t, oracleErr)
			}
			return
		}
		require.NoError(t, oracleErr)
		require.True(t, proto.Equal(want, got), "want %v, got %v", want, got)

		// What is written is what was read.
		written, err := apijson.Append(nil, got, apijson.Style{})
		require.NoError(t, err)
		again := &logv1.TopicConfig{}
		require.NoError(t, apijson.Unmarshal(written, again))
		require.True(t, proto.Equal(got, again), "%s", written)
	})
}

// lenient says whether encoding/json may take a body that we refuse: it replaces
// lone surrogates.
func lenient(body []byte, err error) bool {
	return surrogate.Match(body) && strings.HasSuffix(err.Error(), "lone surrogate in a string")
}

func FuzzConsumed(f *testing.F) {
	f.Add([]byte("k1"), []byte("hello"), int64(142), int64(1763500000000), false, false)
	f.Add([]byte(nil), []byte("\x00\x1f\"\\/\u2028\xff\xc3é😀\ufffd"), int64(-1), int64(1)<<62, true, true)
	f.Fuzz(func(t *testing.T, key, value []byte, offset, timestamp int64, hasKey, encoded bool) {
		record := &logv1.Record{Partition: 1, Offset: offset, TimestampMs: timestamp, Value: value}
		if hasKey {
			record.Key = append([]byte{}, key...)
		}
		m := &logv1.ConsumeResponse{Records: []*logv1.Record{record, {}}, NextOffset: offset, HighWatermark: timestamp}
		style := apijson.Style{}
		if encoded {
			style = apijson.Style{Values: apijson.Base64, Keys: apijson.Base64}
		}
		fast, err := apijson.Append(nil, m, style)
		require.NoError(t, err)
		slow, err := apijson.AppendReflective(nil, m, style)
		require.NoError(t, err)
		require.Equal(t, string(slow), string(fast))

		text := func(b []byte) string {
			if encoded {
				return base64.StdEncoding.EncodeToString(b)
			}
			// As encoding/json replaces what is not UTF-8.
			quoted, err := json.Marshal(string(b))
			require.NoError(t, err)
			var s string
			require.NoError(t, json.Unmarshal(quoted, &s))
			return s
		}
		var got struct {
			Records []struct {
				Partition   int32   `json:"partition"`
				Offset      int64   `json:"offset"`
				TimestampMs int64   `json:"timestamp_ms"`
				Key         *string `json:"key"`
				Value       *string `json:"value"`
			} `json:"records"`
			NextOffset    int64 `json:"next_offset"`
			HighWatermark int64 `json:"high_watermark"`
		}
		require.NoError(t, json.Unmarshal(fast, &got))
		require.Len(t, got.Records, 2)
		require.Equal(t, offset, got.Records[0].Offset)
		require.Equal(t, timestamp, got.Records[0].TimestampMs)
		require.Equal(t, text(value), *got.Records[0].Value)
		require.Equal(t, hasKey, got.Records[0].Key != nil)
		if hasKey {
			require.Equal(t, text(key), *got.Records[0].Key)
		}
		require.Equal(t, offset, got.NextOffset)
		require.Equal(t, timestamp, got.HighWatermark)
	})
}

func FuzzProduced(f *testing.F) {
	f.Add(int32(1), int64(142), true)
	f.Fuzz(func(t *testing.T, partition int32, offset int64, duplicate bool) {
		m := &logv1.ProduceResponse{Results: []*logv1.ProduceResult{{Partition: partition, Offset: offset, Duplicate: duplicate}, {}}}
		fast, err := apijson.Append(nil, m, apijson.Style{})
		require.NoError(t, err)
		slow, err := apijson.AppendReflective(nil, m, apijson.Style{})
		require.NoError(t, err)
		require.Equal(t, string(slow), string(fast))
		again := &logv1.ProduceResponse{}
		require.NoError(t, apijson.Unmarshal(fast, again))
		require.True(t, proto.Equal(m, again))
	})
}
