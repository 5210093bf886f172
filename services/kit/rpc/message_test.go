package rpc

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sluiceio/sluice/services/kit/invariant"
)

func TestHandOverLeavesNothingOfWhatWasThere(t *testing.T) {
	withUnknown := &durationpb.Duration{Seconds: 3}
	withUnknown.ProtoReflect().SetUnknown([]byte{0x78, 1}) // field 15, varint
	cases := map[string]struct{ dst, src proto.Message }{
		"scalars":        {&durationpb.Duration{Seconds: 1, Nanos: 2}, &durationpb.Duration{Nanos: 5}},
		"empty":          {&durationpb.Duration{Seconds: 1}, &durationpb.Duration{}},
		"unknown fields": {&durationpb.Duration{}, withUnknown},
		"known for unknown": {
			func() proto.Message { return proto.Clone(withUnknown) }(),
			&durationpb.Duration{Seconds: 4},
		},
		"another of a oneof": {structpb.NewStringValue("was"), structpb.NewNumberValue(7)},
		"map":                {&structpb.Struct{}, &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewBoolValue(true)}}},
		"list":               {structpb.NewNullValue(), structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStringValue("x")}})},
		"extensions": {
			&descriptorpb.FieldOptions{Deprecated: proto.Bool(true)},
			&descriptorpb.FieldOptions{Packed: proto.Bool(true)},
		},
	}
	for name, c := range cases {
		want := proto.Clone(c.src)
		require.NoError(t, handOver(c.dst, c.src), name)
		require.True(t, proto.Equal(want, c.dst), "%s: %v", name, c.dst)
		require.True(t, proto.Equal(want, c.src), "%s: the source is as it was", name)
	}
}

func TestHandOverCopiesNoBytes(t *testing.T) {
	if invariant.Enabled {
		t.Skip("messages are marshalled and back in this build")
	}
	src := &structpb.ListValue{Values: []*structpb.Value{structpb.NewStringValue("x")}}
	dst := &structpb.ListValue{}
	require.NoError(t, handOver(dst, src))
	require.Same(t, src.Values[0], dst.Values[0])
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = handOver(dst, src) }))
}

func TestMessagesWithExtensionsAreNotPlain(t *testing.T) {
	require.Nil(t, plainOf(reflect.TypeFor[*descriptorpb.FieldOptions]()))
	require.Nil(t, plainOf(reflect.TypeFor[*dynamicpb.Message]()))
	require.Len(t, plainOf(reflect.TypeFor[*durationpb.Duration]()).fields, 2)
	require.Nil(t, plainOf(reflect.TypeFor[int]()))
}
