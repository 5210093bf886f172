package grpcdoor

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// besideElement is about what an element of a list or map takes in memory beside its
// bytes. An empty record has two of them.
const besideElement = 192

// A shape says which fields of an encoded message make elements: those of lists and
// maps, and the messages within. It may be within itself.
type shape map[protowire.Number]element

type element struct {
	// What is in it; nil where that is no message.
	inner shape
	// All elements of a list may be in one field, of a byte each at least.
	packed bool
}

// shapeOf returns the shape of a type of message, which is found once.
func (d *Door) shapeOf(m protoreflect.MessageDescriptor) shape {
	if known, ok := d.shapes.Load(m); ok {
		return known.(shape)
	}
	s := findShape(m, make(map[protoreflect.MessageDescriptor]shape))
	d.shapes.Store(m, s)
	return s
}

func findShape(m protoreflect.MessageDescriptor, known map[protoreflect.MessageDescriptor]shape) shape {
	if s, ok := known[m]; ok {
		return s
	}
	s := make(shape)
	known[m] = s
	for i := range m.Fields().Len() {
		switch f := m.Fields().Get(i); {
		case f.Message() != nil:
			s[f.Number()] = element{inner: findShape(f.Message(), known)}
		case f.IsList():
			s[f.Number()] = element{packed: f.Kind() != protoreflect.StringKind && f.Kind() != protoreflect.BytesKind}
		}
	}
	return s
}

// count counts the elements in an encoded message, until there are more than most. Of
// one that is malformed it counts what a decoder makes before it finds out.
func (s shape) count(b []byte, most int) (n int) {
	for len(b) > 0 && n <= most {
		number, kind, head := protowire.ConsumeTag(b)
		if head < 0 {
			return n
		}
		length := protowire.ConsumeFieldValue(number, kind, b[head:])
		if length < 0 {
			return n
		}
		if e, ok := s[number]; ok {
			n += e.count(kind, b[head:head+length], most-n)
		}
		b = b[head+length:]
	}
	return n
}

// count counts an element of which this is the encoding, and those within.
func (e element) count(kind protowire.Type, value []byte, most int) int {
	if kind != protowire.BytesType {
		return 1
	}
	value, _ = protowire.ConsumeBytes(value)
	switch {
	case e.packed:
		return len(value)
	case len(e.inner) > 0:
		return 1 + e.inner.count(value, most)
	}
	return 1
}
