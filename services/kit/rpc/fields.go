package rpc

import (
	"reflect"
	"sync"
)

// plainFields has the answers of fieldsOf by type.
var plainFields sync.Map

// fieldsOf returns the fields of a generated message, given as a pointer, that are
// all there is to it beside unknown fields and what protobuf keeps for itself: to
// assign them is a sixth of the time that reflection over the message takes. It is
// nil for a message that keeps its fields in another way: extensions, or the
// opaque API.
func fieldsOf(message reflect.Type) []int {
	if known, ok := plainFields.Load(message); ok {
		return known.([]int)
	}
	fields := findFields(message)
	plainFields.Store(message, fields)
	return fields
}

func findFields(message reflect.Type) []int {
	if message.Kind() != reflect.Pointer || message.Elem().Kind() != reflect.Struct {
		return nil
	}
	fields := []int{}
	for i := range message.Elem().NumField() {
		switch field := message.Elem().Field(i); {
		case field.IsExported():
			fields = append(fields, i)
		case field.Name != "state" && field.Name != "sizeCache" && field.Name != "unknownFields":
			return nil
		}
	}
	return fields
}
