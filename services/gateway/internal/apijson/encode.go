package apijson

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

// Text says how the bytes of records are written.
type Text uint8

const (
	// UTF8 writes bytes as text; each byte that is not UTF-8 becomes U+FFFD.
	UTF8 Text = iota
	// Base64 writes padded standard base64.
	Base64
)

// Style is what a request may choose about its answer.
type Style struct {
	Values Text
	Keys   Text
}

// Append appends the JSON of m to dst. It fails only for a message that has a
// kind of field this package does not know.
func Append(dst []byte, m proto.Message, style Style) ([]byte, error) {
	switch m := m.(type) {
	case *logv1.ProduceResponse:
		return appendProduceResponse(dst, m), nil
	case *logv1.ConsumeResponse:
		return appendConsumeResponse(dst, m, style), nil
	default:
		return appendMessage(dst, m.ProtoReflect(), style)
	}
}

func appendMessage(dst []byte, m protoreflect.Message, style Style) ([]byte, error) {
	p, err := planOf(m.Descriptor())
	if err != nil {
		return nil, err
	}
	dst = append(dst, '{')
	for _, f := range p.fields {
		v := m.Get(f.FieldDescriptor)
		switch {
		case m.Has(f.FieldDescriptor):
		case f.nullWhenUnset:
			dst = appendName(dst, f.name)
			dst = append(dst, "null"...)
			continue
		case f.HasPresence(), f.omitZero:
			continue
		}
		dst = appendName(dst, f.name)
		if dst, err = appendField(dst, f, v, style); err != nil {
			return nil, err
		}
	}
	if p.flat != nil {
		if dst, err = appendEntries(dst, p.flat, m.Get(p.flat.FieldDescriptor).Map(), style); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendField(dst []byte, f *fieldPlan, v protoreflect.Value, style Style) (_ []byte, err error) {
	switch {
	case f.IsMap():
		dst = append(dst, '{')
		if dst, err = appendEntries(dst, f, v.Map(), style); err != nil {
			return nil, err
		}
		return append(dst, '}'), nil
	case f.IsList():
		dst = append(dst, '[')
		for i := range v.List().Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendValue(dst, f, v.List().Get(i), style); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	default:
		return appendValue(dst, f, v, style)
	}
}

// appendEntries appends the entries of a map in the order of their keys, so that
// equal messages have equal JSON.
func appendEntries(dst []byte, f *fieldPlan, entries protoreflect.Map, style Style) (_ []byte, err error) {
	keys := make([]protoreflect.MapKey, 0, entries.Len())
	for k := range entries.Range {
		keys = append(keys, k)
	}
	value := &fieldPlan{FieldDescriptor: f.MapValue()}
	if f.MapKey().Kind() == protoreflect.StringKind {
		slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) })
	} else {
		slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.Int(), b.Int()) })
	}
	for _, k := range keys {
		dst = appendName(dst, k.String())
		if dst, err = appendValue(dst, value, entries.Get(k), style); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

func appendValue(dst []byte, f *fieldPlan, v protoreflect.Value, style Style) ([]byte, error) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return appendMessage(dst, v.Message(), style)
	case protoreflect.BoolKind:
		return strconv.AppendBool(dst, v.Bool()), nil
	case protoreflect.StringKind:
		return AppendString(dst, v.String()), nil
	case protoreflect.BytesKind:
		as := Base64
		if f.text {
			as = style.Values
			if f.name == "key" {
				as = style.Keys
			}
		}
		return appendBytes(dst, v.Bytes(), as), nil
	default:
		if f.nullValue != nil && v.Int() == *f.nullValue {
			return append(dst, "null"...), nil
		}
		return strconv.AppendInt(dst, v.Int(), 10), nil
	}
}

// appendName appends a name and its colon, with a comma if the object has
// something already.
func appendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	dst = AppendString(dst, name)
	return append(dst, ':')
}

func appendBytes(dst, b []byte, as Text) []byte {
	if as == UTF8 {
		return appendText(dst, b)
	}
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}
