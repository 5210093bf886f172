package rpc

import (
	"reflect"
	"sync"

	"google.golang.org/protobuf/proto"
)

// plain is a generated message that keeps its fields in its struct alone: not
// extensions, nor those of the opaque API. To assign them is an eighth of the time
// that reflection over the message takes.
type plain struct {
	// fields are the positions of all that there is to it beside unknown fields and
	// what protobuf keeps for itself.
	fields []int
	// unknown is the position of the unknown fields.
	unknown int
}

// plains has the answers of plainOf by type.
var plains sync.Map

// plainOf is nil for a message of another kind, and for any other type.
func plainOf(message reflect.Type) *plain {
	if known, ok := plains.Load(message); ok {
		return known.(*plain)
	}
	p := findFields(message)
	plains.Store(message, p)
	return p
}

func findFields(message reflect.Type) *plain {
	if !message.Implements(reflect.TypeFor[proto.Message]()) || message.Kind() != reflect.Pointer {
		return nil
	}
	p := &plain{unknown: -1}
	for i := range message.Elem().NumField() {
		switch field := message.Elem().Field(i); {
		case field.IsExported():
			p.fields = append(p.fields, i)
		case field.Name == "unknownFields":
			p.unknown = i
		case field.Name != "state" && field.Name != "sizeCache":
			return nil
		}
	}
	if p.unknown < 0 {
		return nil
	}
	return p
}

// assign makes dst the same message as src, unless either has unknown fields: then
// it does nothing and returns false. Both are structs.
func (p *plain) assign(dst, src reflect.Value) bool {
	if src.Field(p.unknown).Len() > 0 || dst.Field(p.unknown).Len() > 0 {
		return false
	}
	for _, i := range p.fields {
		dst.Field(i).Set(src.Field(i))
	}
	return true
}
