package apijson

import (
	"encoding/base64"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

// Unmarshal reads a body into m, which must be empty. It takes data over: it
// changes it, and bytes in m point into it. Errors about the body are *Error.
func Unmarshal(data []byte, m proto.Message) error {
	if produce, ok := m.(*logv1.ProduceRequest); ok {
		return unmarshalProduce(data, produce)
	}
	return unmarshalAny(data, m)
}

func unmarshalAny(data []byte, m proto.Message) error {
	s := &scanner{data: data}
	if s.peek() == 0 && s.pos >= len(s.data) {
		return errEmptyBody
	}
	if err := s.message(m.ProtoReflect()); err != nil {
		return err
	}
	return s.end()
}

var errEmptyBody = &Error{Reason: "the body is empty, expected a JSON object"}

func (s *scanner) message(m protoreflect.Message) error {
	p, err := planOf(m.Descriptor())
	if err != nil {
		return err
	}
	return s.object(func(name []byte) error {
		if f := p.byName[string(name)]; f != nil {
			return within(f.name, s.field(m, f))
		}
		if p.flat != nil {
			key := string(name)
			return within(key, s.entry(m.Mutable(p.flat.FieldDescriptor).Map(), p.flat, key))
		}
		return s.skip()
	})
}

// field reads the value at the cursor into a field, over what is there already.
func (s *scanner) field(m protoreflect.Message, f *fieldPlan) error {
	m.Clear(f.FieldDescriptor)
	if null, err := s.null(); null || err != nil {
		if err == nil && f.nullValue != nil {
			m.Set(f.FieldDescriptor, protoreflect.ValueOfInt64(*f.nullValue))
		}
		return err
	}
	switch {
	case f.IsMap():
		entries := m.Mutable(f.FieldDescriptor).Map()
		return s.object(func(name []byte) error {
			key := string(name)
			return within(key, s.entry(entries, f, key))
		})
	case f.IsList():
		list := m.Mutable(f.FieldDescriptor).List()
		return s.list(func(i int) error {
			if err := tooMany(i); err != nil {
				return err
			}
			v, err := s.value(f, list.NewElement)
			if err != nil {
				return within("["+strconv.Itoa(i)+"]", err)
			}
			list.Append(v)
			return nil
		})
	default:
		v, err := s.value(f, func() protoreflect.Value { return m.NewField(f.FieldDescriptor) })
		if err != nil {
			return err
		}
		m.Set(f.FieldDescriptor, v)
		return nil
	}
}

// entry reads the value at the cursor into the map, under the key as it stands
// in JSON.
func (s *scanner) entry(entries protoreflect.Map, f *fieldPlan, key string) error {
	if err := tooMany(entries.Len()); err != nil {
		return err
	}
	var k protoreflect.MapKey
	switch kind := f.MapKey().Kind(); kind {
	case protoreflect.StringKind:
		k = protoreflect.ValueOfString(key).MapKey()
	default:
		bitSize := bitSize(kind)
		n, err := strconv.ParseInt(key, 10, bitSize)
		if err != nil {
			return &Error{Reason: "must have an integer as its name"}
		}
		k = intValue(bitSize, n).MapKey()
	}
	v, err := s.value(&fieldPlan{FieldDescriptor: f.MapValue()}, entries.NewValue)
	if err != nil {
		return err
	}
	entries.Set(k, v)
	return nil
}

// value reads the value at the cursor as one element of the field. fresh makes
// an empty message for it.
func (s *scanner) value(f *fieldPlan, fresh func() protoreflect.Value) (protoreflect.Value, error) {
	var none protoreflect.Value
	switch kind := f.Kind(); kind {
	case protoreflect.MessageKind:
		v := fresh()
		return v, s.message(v.Message())
	case protoreflect.BoolKind:
		b, err := s.boolean()
		return protoreflect.ValueOfBool(b), err
	case protoreflect.StringKind:
		text, err := s.text()
		if err != nil {
			return none, err
		}
		return protoreflect.ValueOfString(string(text)), nil
	case protoreflect.BytesKind:
		text, err := s.text()
		if err != nil || f.text {
			return protoreflect.ValueOfBytes(text), err
		}
		n, err := base64.StdEncoding.Decode(text, text)
		if err != nil {
			return none, &Error{Reason: "must be base64"}
		}
		return protoreflect.ValueOfBytes(text[:n]), nil
	default:
		bitSize := bitSize(kind)
		n, err := s.integer(bitSize)
		return intValue(bitSize, n), err
	}
}

func bitSize(k protoreflect.Kind) int {
	if k == protoreflect.Int32Kind {
		return 32
	}
	return 64
}

func intValue(bitSize int, n int64) protoreflect.Value {
	if bitSize == 32 {
		return protoreflect.ValueOfInt32(int32(n))
	}
	return protoreflect.ValueOfInt64(n)
}
