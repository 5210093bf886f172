package protoschema

import (
	"strings"

	"google.golang.org/protobuf/types/descriptorpb"
)

// complete gives the fields of a descriptor the names in JSON that go without
// saying: some languages leave them out, and the compiler takes that for fields
// that have one name.
func complete(messages []*descriptorpb.DescriptorProto, extensions []*descriptorpb.FieldDescriptorProto) {
	fields := extensions
	for _, m := range messages {
		fields = append(fields, m.GetField()...)
		complete(m.GetNestedType(), m.GetExtension())
	}
	for _, f := range fields {
		if f.JsonName == nil {
			name := jsonName(f.GetName())
			f.JsonName = &name
		}
	}
}

// jsonName is a name in camel case.
func jsonName(name string) string {
	var out strings.Builder
	upper := false
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_':
			upper = true
			continue
		case upper && 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		}
		upper = false
		out.WriteByte(c)
	}
	return out.String()
}
