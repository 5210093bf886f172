package protoschema

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Compare returns what stands against reading with a schema what was written with
// another one. Word, "new" or "old", says which of them the reading one is.
func Compare(written, reading *Schema, word string) []string {
	c := &comparison{word: word, seen: make(map[pair]bool)}
	c.messages(written.file.Messages(), reading.file.Messages())
	return c.faults
}

type pair struct{ written, reading protoreflect.FullName }

type comparison struct {
	word   string
	seen   map[pair]bool
	faults []string
}

func (c *comparison) fault(format string, args ...any) {
	text := c.word + " schema " + fmt.Sprintf(format, args...)
	if !slices.Contains(c.faults, text) {
		c.faults = append(c.faults, text)
	}
}

// local is a name without the package of its file, which may be another one.
func local(d protoreflect.Descriptor) string {
	return strings.TrimPrefix(string(d.FullName()), string(d.ParentFile().Package())+".")
}

// messages compares all messages of a file, or of a message.
func (c *comparison) messages(written, reading protoreflect.MessageDescriptors) {
	for i := range written.Len() {
		w := written.Get(i)
		r := reading.ByName(w.Name())
		switch {
		// An entry is its map field's.
		case w.IsMapEntry():
		case r == nil:
			c.fault("removes message '%s'", local(w))
		default:
			c.message(w, r)
			c.messages(w.Messages(), r.Messages())
		}
	}
}

func (c *comparison) message(written, reading protoreflect.MessageDescriptor) {
	p := pair{written.FullName(), reading.FullName()}
	if c.seen[p] {
		return
	}
	c.seen[p] = true
	for i := range reading.Fields().Len() {
		r := reading.Fields().Get(i)
		w := written.Fields().ByNumber(r.Number())
		if w != nil {
			c.field(w, r)
		}
		if r.Cardinality() == protoreflect.Required && (w == nil || w.Cardinality() != protoreflect.Required) {
			c.fault("adds required field '%s.%s'", local(reading), r.Name())
		}
		// Read backwards, a number is reserved because its field is gone.
		if w == nil && c.word == "new" && written.ReservedRanges().Has(r.Number()) {
			c.fault("uses number %d, which was reserved, for '%s.%s'", r.Number(), local(reading), r.Name())
		}
	}
	for i := range written.Fields().Len() {
		w := written.Fields().Get(i)
		if one := oneof(w); one != nil {
			r := reading.Fields().ByNumber(w.Number())
			if r == nil || oneof(r) == nil {
				c.fault("removes field '%s.%s' from oneof '%s'", local(written), w.Name(), one.Name())
			}
		}
	}
	c.oneofs(written, reading)
}

// oneof is the oneof of a field, but for those that optional makes.
func oneof(f protoreflect.FieldDescriptor) protoreflect.OneofDescriptor {
	if one := f.ContainingOneof(); one != nil && !one.IsSynthetic() {
		return one
	}
	return nil
}

// oneofs looks for fields that could all be set and of which now one can.
func (c *comparison) oneofs(written, reading protoreflect.MessageDescriptor) {
	for i := range reading.Oneofs().Len() {
		one := reading.Oneofs().Get(i)
		var from []protoreflect.FieldDescriptor
		for j := range one.Fields().Len() {
			if w := written.Fields().ByNumber(one.Fields().Get(j).Number()); w != nil {
				from = append(from, w)
			}
		}
		for _, w := range from {
			if len(from) > 1 && (oneof(w) == nil || oneof(w) != oneof(from[0])) {
				c.fault("moves several fields into oneof '%s.%s'", local(reading), one.Name())
				break
			}
		}
	}
}

func (c *comparison) field(w, r protoreflect.FieldDescriptor) {
	name := local(r.ContainingMessage()) + "." + string(r.Name())
	if w.IsMap() != r.IsMap() {
		c.fault("changes field '%s' from or to a map", name)
		return
	}
	if w.IsMap() {
		c.field(w.MapKey(), r.MapKey())
		c.field(w.MapValue(), r.MapValue())
		return
	}
	if !reads(w.Kind(), r.Kind()) {
		c.fault("changes the type of field '%s' from %s to %s", name, w.Kind(), r.Kind())
		return
	}
	switch many, now := w.Cardinality() == protoreflect.Repeated, r.Cardinality() == protoreflect.Repeated; {
	case many && !now:
		c.fault("makes repeated field '%s' single", name)
	case !many && now && !lengthPrefixed(r.Kind()):
		c.fault("makes field '%s' repeated", name)
	}
	switch {
	case w.Message() != nil && r.Message() != nil:
		if local(w.Message()) != local(r.Message()) {
			c.fault("changes the type of field '%s' from %s to %s", name, local(w.Message()), local(r.Message()))
			return
		}
		c.message(w.Message(), r.Message())
	case w.Enum() != nil && r.Enum() != nil:
		c.enum(w.Enum(), r.Enum(), name)
	}
}

// enum looks for values that a closed enum no longer has.
func (c *comparison) enum(w, r protoreflect.EnumDescriptor, field string) {
	if local(w) != local(r) {
		c.fault("changes the type of field '%s' from %s to %s", field, local(w), local(r))
		return
	}
	if !r.IsClosed() {
		return
	}
	if !w.IsClosed() {
		c.fault("closes enum '%s'", local(r))
		return
	}
	for i := range w.Values().Len() {
		if value := w.Values().Get(i); r.Values().ByNumber(value.Number()) == nil {
			c.fault("removes value '%s' of enum '%s'", value.Name(), local(r))
		}
	}
}

// wider has, for each kind, the other kinds that hold all of its values and are
// written alike.
var wider = map[protoreflect.Kind][]protoreflect.Kind{
	protoreflect.BoolKind:   {protoreflect.Int32Kind, protoreflect.Uint32Kind, protoreflect.Int64Kind, protoreflect.Uint64Kind},
	protoreflect.EnumKind:   {protoreflect.Int32Kind, protoreflect.Int64Kind},
	protoreflect.Int32Kind:  {protoreflect.Int64Kind},
	protoreflect.Uint32Kind: {protoreflect.Uint64Kind, protoreflect.Int64Kind},
	protoreflect.Sint32Kind: {protoreflect.Sint64Kind},
	protoreflect.StringKind: {protoreflect.BytesKind},
}

func reads(written, reading protoreflect.Kind) bool {
	return written == reading || slices.Contains(wider[written], reading)
}

func lengthPrefixed(k protoreflect.Kind) bool {
	return k == protoreflect.StringKind || k == protoreflect.BytesKind || k == protoreflect.MessageKind
}
