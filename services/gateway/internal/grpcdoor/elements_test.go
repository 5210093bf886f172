package grpcdoor

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

// elementsOf counts the elements of a message in the obvious way.
func elementsOf(m protoreflect.Message) (n int) {
	within := func(f protoreflect.FieldDescriptor, v protoreflect.Value) {
		n++
		if f.Message() != nil {
			n += elementsOf(v.Message())
		}
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				within(f.MapValue(), v)
				return true
			})
		case f.IsList():
			for i := range v.List().Len() {
				within(f, v.List().Get(i))
			}
		case f.Message() != nil:
			within(f, v)
		}
		return true
	})
	return n
}

// FuzzCount: no element is overlooked, whatever the bytes are, and whether or not they
// are a message.
func FuzzCount(f *testing.F) {
	messages := []proto.Message{
		&logv1.ProduceRequest{Topic: "t", Records: []*logv1.ProduceRecord{{Key: []byte("k")}, {}}},
		&logv1.GetOffsetsResponse{Offsets: map[string]*logv1.PartitionOffsets{"a": {Partitions: map[int32]int64{1: 2, 3: 4}}, "b": {}}},
		// Lists of numbers, in one field or one field each, and messages within themselves.
		&descriptorpb.SourceCodeInfo_Location{Path: []int32{1, 2, 3}, LeadingDetachedComments: []string{"a"}},
		&descriptorpb.FileDescriptorProto{PublicDependency: []int32{1, 300}, MessageType: []*descriptorpb.DescriptorProto{{NestedType: []*descriptorpb.DescriptorProto{{}}}}},
		structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStringValue("x"), structpb.NewNullValue()}}),
	}
	for i, m := range messages {
		b, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(uint8(i), b)
		f.Add(uint8(i), slices.Repeat(b, 3))
		f.Add(uint8(i), b[:len(b)-1])
	}
	var d Door
	f.Fuzz(func(t *testing.T, i uint8, b []byte) {
		m := messages[int(i)%len(messages)].ProtoReflect().New()
		shape := d.shapeOf(m.Descriptor())
		n := shape.count(b, math.MaxInt)
		// What a decoder makes of bytes that it refuses, too.
		_ = proto.Unmarshal(b, m.Interface())
		require.GreaterOrEqual(t, n, elementsOf(m))
		require.LessOrEqual(t, n, len(b))
		if n > 0 {
			require.Positive(t, shape.count(b, n-1))
		}
	})
}
