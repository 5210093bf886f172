package apijson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/apijson"
)

func TestEveryPublicMessageHasJSON(t *testing.T) {
	files := 0
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if file.Package() != "sluice.log.v1" {
			return true
		}
		files++
		for i := range file.Messages().Len() {
			d := file.Messages().Get(i)
			typ, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
			require.NoError(t, err)
			empty, err := apijson.Append(nil, typ.New().Interface(), apijson.Style{})
			require.NoError(t, err)
			require.True(t, json.Valid(empty), "%s: %s", d.FullName(), empty)
		}
		return true
	})
	require.Equal(t, 3, files)
}

func TestAppend(t *testing.T) {
	for name, tc := range map[string]struct {
		message proto.Message
		style   apijson.Style
		want    string
	}{
		"produced": {
			message: &logv1.ProduceResponse{Results: []*logv1.ProduceResult{
				{Partition: 0, Offset: 142}, {Partition: 1, Offset: 1 << 60, Duplicate: true},
			}},
			want: `{"results":[{"partition":0,"offset":142},{"partition":1,"offset":1152921504606846976,"duplicate":true}]}`,
		},
		"consumed": {
			message: &logv1.ConsumeResponse{
				Records: []*logv1.Record{
					{Partition: 0, Offset: 142, TimestampMs: 1763500000000, Key: []byte("k1"), Value: []byte("hello")},
					{Partition: 0, Offset: 143, TimestampMs: -1, Value: []byte("\x00\t\"\\ü\xff</a>")},
					{Offset: 144, Key: []byte{}},
				},
				NextOffset: 145, HighWatermark: 200,
			},
			want: `{"records":[` +
				`{"partition":0,"offset":142,"timestamp_ms":1763500000000,"key":"k1","value":"hello"},` +
				`{"partition":0,"offset":143,"timestamp_ms":-1,"key":null,"value":"\u0000\t\"\\ü` + "\ufffd" + `</a>"},` +
				`{"partition":0,"offset":144,"timestamp_ms":0,"key":"","value":""}],` +
				`"next_offset":145,"high_watermark":200}`,
		},
		"consumed as base64": {
			message: &logv1.ConsumeResponse{Records: []*logv1.Record{{Key: []byte("k1"), Value: []byte{0xff}}, {}}},
			style:   apijson.Style{Values: apijson.Base64},
			want: `{"records":[{"partition":0,"offset":0,"timestamp_ms":0,"key":"k1","value":"/w=="},` +
				`{"partition":0,"offset":0,"timestamp_ms":0,"key":null,"value":""}],"next_offset":0,"high_watermark":0}`,
		},
		"consumed with keys as base64": {
			message: &logv1.ConsumeResponse{Records: []*logv1.Record{{Key: []byte("k1"), Value: []byte("v")}}},
			style:   apijson.Style{Keys: apijson.Base64},
			want: `{"records":[{"partition":0,"offset":0,"timestamp_ms":0,"key":"azE=","value":"v"}],` +
				`"next_offset":0,"high_watermark":0}`,
		},
		"nothing consumed": {
			message: &logv1.ConsumeResponse{NextOffset: 7, HighWatermark: 7},
			want:    `{"records":[],"next_offset":7,"high_watermark":7}`,
		},
		"no topics": {
			message: &logv1.ListTopicsResponse{},
			want:    `{"topics":[]}`,
		},
		"offsets": {
			message: &logv1.GetOffsetsResponse{Offsets: map[string]*logv1.PartitionOffsets{
				"orders":  {Partitions: map[int32]int64{10: 5, 9: 4, 0: 1}},
				"billing": {Partitions: map[int32]int64{0: 7}},
			}},
			want: `{"offsets":{"billing":{"0":7},"orders":{"0":1,"9":4,"10":5}}}`,
		},
		"no offsets": {
			message: &logv1.GetOffsetsResponse{},
			want:    `{"offsets":{}}`,
		},
		"config": {
			message: &logv1.TopicConfig{
				RetentionMs: proto.Int64(86400000), RetentionBytes: proto.Int64(-1),
				CleanupPolicy: proto.String("compact,delete"), SegmentBytes: proto.Int64(1024),
				TombstoneRetentionMs: proto.Int64(0),
				Kafka:                map[string]string{"max.message.bytes": "5", "compression.type": "zstd"},
			},
			want: `{"retention_ms":86400000,"retention_bytes":null,"cleanup_policy":"compact,delete",` +
				`"segment_bytes":1024,"tombstone_retention_ms":0,"compression.type":"zstd","max.message.bytes":"5"}`,
		},
		"topic": {
			message: &logv1.GetTopicResponse{
				Name: "orders",
				Partitions: []*logv1.PartitionInfo{
					{Id: 0, StartOffset: 1, EndOffset: 5, SegmentCount: 2, SizeBytes: 900, Leader: "a", LeaderEpoch: 3},
				},
				Config: &logv1.TopicConfig{RetentionMs: proto.Int64(-1)},
			},
			want: `{"name":"orders","partitions":[{"id":0,"start_offset":1,"end_offset":5,"segment_count":2,` +
				`"size_bytes":900,"leader":"a","leader_epoch":3}],"config":{"retention_ms":null}}`,
		},
		"created": {
			message: &logv1.CreateTopicResponse{Name: "orders", Partitions: 2},
			want:    `{"name":"orders","partitions":2}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := apijson.Append([]byte("x"), tc.message, tc.style)
			require.NoError(t, err)
			require.Equal(t, "x"+tc.want, string(got))
		})
	}
}

func TestUnmarshal(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want proto.Message
	}{
		"produce": {
			body: ` {"records":[{"key":"k1","value":"hello"},{"value":"w\u00f6rld\n\ud83d\ude00","partition":1,"sequence":9223372036854775807}],"producer_id":"p"} `,
			want: &logv1.ProduceRequest{
				Records: []*logv1.ProduceRecord{
					{Key: []byte("k1"), Value: []byte("hello")},
					{Value: []byte("wörld\n😀"), Partition: proto.Int32(1), Sequence: proto.Int64(1<<63 - 1)},
				},
				ProducerId: proto.String("p"),
			},
		},
		"empty key is a key, null is none": {
			body: `{"records":[{"key":"","value":null},{"key":null,"value":""}]}`,
			want: &logv1.ProduceRequest{Records: []*logv1.ProduceRecord{{Key: []byte{}}, {Value: []byte{}}}},
		},
		"escaped names": {
			body: `{"\u0072ecords":[{"k\u0065y":"a"}]}`,
			want: &logv1.ProduceRequest{Records: []*logv1.ProduceRecord{{Key: []byte("a")}}},
		},
		"unknown names are skipped": {
			body: `{"a":[{"b":[1.5e3,true,null,"\u0041"]}],"records":[{"x":{},"key":"a"}],"Records":5}`,
			want: &logv1.ProduceRequest{Records: []*logv1.ProduceRecord{{Key: []byte("a")}}},
		},
		"the last of equal names counts": {
			body: `{"records":[{"key":"a","key":"b","partition":1,"partition":null},{}],"records":[{"key":"c"}]}`,
			want: &logv1.ProduceRequest{Records: []*logv1.ProduceRecord{{Key: []byte("c")}}},
		},
		"create": {
			body: `{"name":"orders","partitions":3,"config":{"retention_ms":5,"retention_bytes":null,"max.message.bytes":"7"}}`,
			want: &logv1.CreateTopicRequest{
				Name: "orders", Partitions: proto.Int32(3),
				Config: &logv1.TopicConfig{
					RetentionMs: proto.Int64(5), RetentionBytes: proto.Int64(-1),
					Kafka: map[string]string{"max.message.bytes": "7"},
				},
			},
		},
		"the last of equal objects replaces the first": {
			body: `{"config":{"retention_ms":5},"config":{"segment_bytes":7}}`,
			want: &logv1.CreateTopicRequest{Config: &logv1.TopicConfig{SegmentBytes: proto.Int64(7)}},
		},
		"the last of equal lists and maps replaces the first": {
			body: `{"offsets":{"a":{"0":1}},"offsets":{"b":{"0":1},"b":{"1":2}}}`,
			want: &logv1.GetOffsetsResponse{Offsets: map[string]*logv1.PartitionOffsets{"b": {Partitions: map[int32]int64{1: 2}}}},
		},
		"null after a value leaves the field out": {
			body: `{"name":"a","config":{"segment_bytes":1},"partitions":3,"name":null,"config":null,"partitions":null}`,
			want: &logv1.CreateTopicRequest{},
		},
		"a list replaces a list": {
			body: `{"topics":["a","b"],"topics":["c"]}`,
			want: &logv1.ListTopicsResponse{Topics: []string{"c"}},
		},
		"null leaves a field out": {
			body: `{"name":null,"partitions":null,"config":null}`,
			want: &logv1.CreateTopicRequest{},
		},
		"maps": {
			body: `{"offsets":{"orders":{"0":1,"10":9007199254740993}}}`,
			want: &logv1.GetOffsetsResponse{Offsets: map[string]*logv1.PartitionOffsets{
				"orders": {Partitions: map[int32]int64{0: 1, 10: 9007199254740993}},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.want.ProtoReflect().New().Interface()
			require.NoError(t, apijson.Unmarshal([]byte(tc.body), got))
			require.True(t, proto.Equal(tc.want, got), "got %v", got)
		})
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	produce, create, commit := &logv1.ProduceRequest{}, &logv1.CreateTopicRequest{}, &logv1.CommitOffsetRequest{}
	deep := strings.Repeat("[", 64) + strings.Repeat("]", 64)
	for _, tc := range []struct {
		into proto.Message
		body string
		want string
	}{
		{produce, "", "the body is empty, expected a JSON object"},
		{create, " \n", "the body is empty, expected a JSON object"},
		{produce, "[]", "the body must be an object, got a list"},
		{create, `"x"`, "the body must be an object, got a string"},
		{produce, `{"records":[]} x`, `malformed JSON at byte 15: expected the end of the body, got 'x'`},
		{create, `{}{}`, `malformed JSON at byte 2: expected the end of the body, got '{'`},
		{produce, `{"records":[`, "malformed JSON at byte 12: expected a value, got the end of the body"},
		{produce, `{"records":{}}`, "records must be a list, got an object"},
		{produce, `{"records":[null]}`, "records[0] must be an object, got null"},
		{produce, `{"records":[{},{"value":5}]}`, "records[1].value must be a string, got a number"},
		{produce, `{"records":[{"value":{}}]}`, "records[0].value must be a string, got an object"},
		{produce, `{"records":[{"key":true}]}`, "records[0].key must be a string, got a boolean"},
		{produce, `{"records":[{"partition":"5"}]}`, "records[0].partition must be an integer, got a string"},
		{produce, `{"records":[{"partition":1.0}]}`, "records[0].partition must be an integer, got 1.0"},
		{produce, `{"records":[{"partition":2147483648}]}`, "records[0].partition must be an integer of 32 bits, got 2147483648"},
		{produce, `{"records":[{"sequence":1e2}]}`, "records[0].sequence must be an integer, got 1e2"},
		{produce, `{"producer_id":5}`, "producer_id must be a string, got a number"},
		{produce, `{"records":[{"value":"a` + "\n" + `"}]}`, "malformed JSON at byte 23: control character in a string"},
		{produce, `{"records":[{"value":"a\x"}]}`, `malformed JSON at byte 23: unknown escape '\x'`},
		{produce, `{"records":[{"value":"\ud800"}]}`, "malformed JSON at byte 22: lone surrogate in a string"},
		{produce, `{"records":[{"value":"\ud800\u0041"}]}`, "malformed JSON at byte 22: lone surrogate in a string"},
		{produce, `{"records":[{"value":"` + "\xff" + `"}]}`, "malformed JSON at byte 22: not UTF-8"},
		{produce, `{"records":[{"value":"\n` + "\xc3" + `"}]}`, "malformed JSON at byte 24: not UTF-8"},
		{produce, `{"records":[{"value":"\u12"}]}`, `malformed JSON at byte 22: '\u' needs four hexadecimal digits`},
		{produce, `{"a":01}`, "malformed JSON at byte 6: expected ',' or '}', got '1'"},
		{produce, `{"a":-}`, "malformed JSON at byte 6: expected a digit, got '}'"},
		{produce, `{"a":tru}`, "malformed JSON at byte 5: expected true, got 't'"},
		{produce, `{"a":1,}`, "malformed JSON at byte 7: expected a name, got '}'"},
		{produce, `{"a" 1}`, "malformed JSON at byte 5: expected ':', got '1'"},
		{produce, `{"a":` + deep + `}`, "malformed JSON at byte 69: nested deeper than 64"},
		{create, `{"partitions":"5"}`, "partitions must be an integer, got a string"},
		{create, `{"partitions":2.0}`, "partitions must be an integer, got 2.0"},
		{create, `{"name":["x"]}`, "name must be a string, got a list"},
		{create, `{"config":[]}`, "config must be an object, got a list"},
		{create, `{"config":{"retention_ms":"5"}}`, "config.retention_ms must be an integer, got a string"},
		{create, `{"config":{"color":{"a":1}}}`, "config.color must be a string, got an object"},
		{create, `{"config":{"max.message.bytes":5}}`, "config.max.message.bytes must be a string, got a number"},
		{commit, `{"partition":0,"offset":99999999999999999999}`, "offset must be an integer of 64 bits, got 99999999999999999999"},
	} {
		m := tc.into.ProtoReflect().New().Interface()
		err := apijson.Unmarshal([]byte(tc.body), m)
		var bodyErr *apijson.Error
		require.ErrorAs(t, err, &bodyErr, "%s", tc.body)
		require.Equal(t, tc.want, err.Error(), "%s", tc.body)
	}
}

func TestUnmarshalLimitsElements(t *testing.T) {
	records := func(n int) []byte {
		return []byte(`{"records":[` + strings.Repeat("{},", n-1) + `{}]}`)
	}
	require.NoError(t, apijson.Unmarshal(records(apijson.MaxElements), &logv1.ProduceRequest{}))
	err := apijson.Unmarshal(records(apijson.MaxElements+1), &logv1.ProduceRequest{})
	require.EqualError(t, err, "records has more than 100000 elements")

	topics := []byte(`{"topics":[` + strings.Repeat(`"",`, apijson.MaxElements) + `""]}`)
	err = apijson.Unmarshal(topics, &logv1.ListTopicsResponse{})
	require.EqualError(t, err, "topics has more than 100000 elements")
}
