package jsonschema

import (
	"reflect"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

// silent are the fields of a compiled schema that say nothing about values.
var silent = map[string]bool{
	"DraftVersion": true, "Location": true, "ID": true, "Anchor": true, "DynamicAnchor": true, "RecursiveAnchor": true,
	"ContentEncoding": true, "ContentMediaType": true, "ContentSchema": true, "Extensions": true,
	"Title": true, "Description": true, "Default": true, "Comment": true, "ReadOnly": true, "WriteOnly": true,
	"Examples": true, "Deprecated": true,
}

type pair struct{ a, b *js.Schema }

// same says whether two schemas are the same but for what says nothing. Schemas
// that contain themselves are the same when no difference is found.
func same(a, b *js.Schema) bool {
	return sameSchemas(a, b, make(map[pair]bool))
}

func sameSchemas(a, b *js.Schema, assumed map[pair]bool) bool {
	switch {
	case a == b:
		return true
	case a == nil || b == nil:
		return false
	}
	if p := (pair{a, b}); !assumed[p] {
		assumed[p] = true
		va, vb := reflect.ValueOf(*a), reflect.ValueOf(*b)
		for i := range va.NumField() {
			field := va.Type().Field(i)
			if field.IsExported() && !silent[field.Name] && !sameValues(va.Field(i), vb.Field(i), assumed) {
				return false
			}
		}
	}
	return true
}

func sameValues(a, b reflect.Value, assumed map[pair]bool) bool {
	if a.IsValid() != b.IsValid() {
		return false
	}
	if !a.IsValid() {
		return true
	}
	if a.Type() != b.Type() {
		return false
	}
	if kind := a.Kind(); (kind == reflect.Pointer || kind == reflect.Interface) && (a.IsNil() || b.IsNil()) {
		return a.IsNil() == b.IsNil()
	}
	switch va := a.Interface().(type) {
	case *js.Schema:
		return sameSchemas(va, b.Interface().(*js.Schema), assumed)
	case map[js.Regexp]*js.Schema:
		return samePatterns(va, b.Interface().(map[js.Regexp]*js.Schema), assumed)
	case js.Regexp:
		return va.String() == b.Interface().(js.Regexp).String()
	case *js.DynamicRef:
		vb := b.Interface().(*js.DynamicRef)
		return va.Anchor == vb.Anchor && sameSchemas(va.Ref, vb.Ref, assumed)
	case *js.Format:
		vb := b.Interface().(*js.Format)
		return va.Name == vb.Name
	}
	switch a.Kind() {
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !sameValues(a.Index(i), b.Index(i), assumed) {
				return false
			}
		}
		return true
	case reflect.Map:
		if a.Len() != b.Len() {
			return false
		}
		for _, key := range a.MapKeys() {
			other := b.MapIndex(key)
			if !other.IsValid() || !sameValues(a.MapIndex(key), other, assumed) {
				return false
			}
		}
		return true
	case reflect.Interface:
		return sameValues(a.Elem(), b.Elem(), assumed)
	default:
		return reflect.DeepEqual(a.Interface(), b.Interface())
	}
}

func samePatterns(a, b map[js.Regexp]*js.Schema, assumed map[pair]bool) bool {
	if len(a) != len(b) {
		return false
	}
	for pattern, schema := range a {
		other := patterned(b, pattern)
		if other == nil || !sameSchemas(schema, other, assumed) {
			return false
		}
	}
	return true
}

// patterned returns the schema that stands under the same pattern.
func patterned(patterns map[js.Regexp]*js.Schema, pattern js.Regexp) *js.Schema {
	for other, schema := range patterns {
		if other.String() == pattern.String() {
			return schema
		}
	}
	return nil
}
