package jsonschema_test

import (
	"encoding/json"
	"strings"
	"testing"

	js "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/services/registry/internal/schema/jsonschema"
)

// Schemas are drawn from few names and small numbers, so that they meet.

type object = map[string]any

var names = []string{"a", "b", "kind", "x1"}

func drawSchema(t *rapid.T, depth int) any {
	if rapid.IntRange(0, 19).Draw(t, "boolean") == 0 {
		return rapid.Bool().Draw(t, "value")
	}
	s := object{}
	some := func(name string, one int) bool { return rapid.IntRange(1, one).Draw(t, name) == 1 }
	small := rapid.IntRange(0, 3)
	if !some("untyped", 4) {
		kinds := rapid.SliceOfNDistinct(rapid.SampledFrom([]any{"null", "boolean", "integer", "number", "string", "array", "object", "object"}), 1, 3, rapid.ID[any]).Draw(t, "type")
		s["type"] = kinds
	}
	if some("enum", 8) {
		s["enum"] = rapid.SliceOfNDistinct(rapid.SampledFrom([]any{nil, true, 1, 2, 1.5, "a", "bb", "kind"}), 1, 4, rapid.ID[any]).Draw(t, "values")
	}
	for _, keyword := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
		if some(keyword, 8) {
			s[keyword] = float64(rapid.IntRange(0, 6).Draw(t, keyword)) / 2
		}
	}
	for _, keyword := range []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"} {
		if some(keyword, 12) {
			s[keyword] = small.Draw(t, keyword)
		}
	}
	if some("multipleOf", 10) {
		s["multipleOf"] = rapid.SampledFrom([]float64{0.5, 1, 2, 3}).Draw(t, "multipleOf")
	}
	if some("pattern", 10) {
		s["pattern"] = rapid.SampledFrom([]string{"^a", "b$"}).Draw(t, "pattern")
	}
	if some("uniqueItems", 10) {
		s["uniqueItems"] = true
	}
	if some("required", 4) {
		s["required"] = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 2, rapid.ID[string]).Draw(t, "required")
	}
	if some("dependentRequired", 12) {
		s["dependentRequired"] = object{rapid.SampledFrom(names).Draw(t, "if"): []string{rapid.SampledFrom(names).Draw(t, "then")}}
	}
	if some("propertyNames", 14) {
		s["propertyNames"] = object{"maxLength": small.Draw(t, "length")}
	}
	if depth == 0 {
		return s
	}
	if some("ref", 14) {
		s["$ref"] = "#/$defs/d"
	}
	if some("properties", 2) {
		properties := object{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID[string]).Draw(t, "named") {
			properties[name] = drawSchema(t, depth-1)
		}
		s["properties"] = properties
	}
	if some("patternProperties", 8) {
		s["patternProperties"] = object{rapid.SampledFrom([]string{"^x", "^k", "b"}).Draw(t, "property pattern"): drawSchema(t, depth-1)}
	}
	for _, keyword := range []struct {
		name string
		one  int
	}{{"additionalProperties", 5}, {"items", 4}, {"not", 14}, {"contains", 12}, {"if", 12}, {"then", 12}, {"else", 12}} {
		if some(keyword.name, keyword.one) {
			s[keyword.name] = drawSchema(t, depth-1)
		}
	}
	for _, keyword := range []struct {
		name string
		one  int
	}{{"prefixItems", 8}, {"allOf", 10}, {"anyOf", 8}, {"oneOf", 8}} {
		if !some(keyword.name, keyword.one) {
			continue
		}
		var list []any
		for range rapid.IntRange(1, 3).Draw(t, "how many") {
			list = append(list, drawSchema(t, depth-1))
		}
		s[keyword.name] = list
	}
	if some("dependentSchemas", 14) {
		s["dependentSchemas"] = object{rapid.SampledFrom(names).Draw(t, "when"): drawSchema(t, depth-1)}
	}
	return s
}

// drawDocument is a schema as a whole: $ref leads to a definition, which may lead
// to itself, deeper in the document.
func drawDocument(t *rapid.T) object {
	s, ok := drawSchema(t, 2).(object)
	if !ok {
		s = object{}
	}
	definition, ok := drawSchema(t, 1).(object)
	if !ok {
		definition = object{}
	}
	delete(definition, "$ref")
	s["$defs"] = object{"d": definition}
	return s
}

// mutate changes a schema in one place, so that it has something to do with what
// it was.
func mutate(t *rapid.T, s any, depth int) any {
	m, ok := s.(object)
	if !ok || depth == 0 {
		return drawSchema(t, 1)
	}
	out := object{}
	var keys []string
	for _, key := range []string{
		"type", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems",
		"minProperties", "maxProperties", "multipleOf", "pattern", "uniqueItems", "required", "dependentRequired", "propertyNames",
		"$ref", "$defs", "properties", "patternProperties", "additionalProperties", "items", "not", "contains", "if", "then", "else",
		"prefixItems", "allOf", "anyOf", "oneOf", "dependentSchemas",
	} {
		if v, ok := m[key]; ok {
			out[key] = v
			keys = append(keys, key)
		}
	}
	how := rapid.IntRange(0, 5).Draw(t, "how")
	if len(keys) == 0 || how == 0 {
		if more, ok := drawSchema(t, 1).(object); ok {
			for key, v := range more {
				if key != "$ref" {
					out[key] = v
				}
			}
		}
		return out
	}
	key := rapid.SampledFrom(keys).Draw(t, "key")
	switch v := out[key].(type) {
	case object:
		if key == "properties" || key == "patternProperties" || key == "$defs" || key == "dependentSchemas" {
			changed := object{}
			for _, name := range append([]string{"d", "^x", "^k"}, names...) {
				if schema, ok := v[name]; ok {
					changed[name] = mutate(t, schema, depth-1)
				}
			}
			out[key] = changed
		} else if key != "dependentRequired" {
			out[key] = mutate(t, v, depth-1)
		}
	case []any:
		if key == "type" || key == "enum" {
			if how < 3 && len(v) > 1 {
				out[key] = v[1:]
			} else if key == "type" && !contains(v, "null") {
				out[key] = append(append([]any{}, v...), "null")
			}
			return out
		}
		changed := append([]any{}, v...)
		at := rapid.IntRange(0, len(v)-1).Draw(t, "at")
		changed[at] = mutate(t, v[at], depth-1)
		out[key] = changed
	case float64:
		out[key] = v + rapid.SampledFrom([]float64{-0.5, 0.5, 1}).Draw(t, "by")
		if key == "multipleOf" {
			out[key] = v * 2
		}
	case int:
		out[key] = max(0, v+rapid.SampledFrom([]int{-1, 1}).Draw(t, "by"))
	default:
		if key != "$defs" {
			delete(out, key)
		}
	}
	return out
}

func contains(list []any, v any) bool {
	for _, other := range list {
		if other == v {
			return true
		}
	}
	return false
}

func text(t require.TestingT, schema any) string {
	out, err := json.Marshal(schema)
	require.NoError(t, err)
	return string(out)
}

func compile(t require.TestingT, text string) *js.Schema {
	document, err := js.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	c := js.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("schema:///", document))
	s, err := c.Compile("schema:///")
	require.NoError(t, err)
	return s
}

// instance writes a document with a schema in mind: of what a place's schemas
// name, and nothing else where they leave an object open.
type writer struct {
	t    *rapid.T
	defs object
}

// beside are the schemas about the same value, the given ones among them.
func (w writer) beside(schemas []any) []object {
	var all []object
	for len(schemas) > 0 {
		s, ok := schemas[0].(object)
		schemas = schemas[1:]
		if !ok || len(all) > 60 {
			continue
		}
		all = append(all, s)
		if s["$ref"] != nil {
			schemas = append(schemas, w.defs["d"])
		}
		for _, keyword := range []string{"not", "if", "then", "else"} {
			// Without if, then and else mean nothing.
			if s[keyword] != nil && (keyword == "not" || s["if"] != nil) {
				schemas = append(schemas, s[keyword])
			}
		}
		for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
			list, _ := s[keyword].([]any)
			schemas = append(schemas, list...)
		}
		if implied, ok := s["dependentSchemas"].(object); ok {
			for _, name := range names {
				if implied[name] != nil {
					schemas = append(schemas, implied[name])
				}
			}
		}
	}
	return all
}

func (w writer) value(schemas []any, depth int) any {
	all := w.beside(schemas)
	var listed []any
	kinds := []string{}
	for _, s := range all {
		values, _ := s["enum"].([]any)
		listed = append(listed, values...)
		types, _ := s["type"].([]any)
		for _, kind := range types {
			kinds = append(kinds, kind.(string))
		}
	}
	if len(listed) > 0 && rapid.Bool().Draw(w.t, "listed") {
		return rapid.SampledFrom(listed).Draw(w.t, "value")
	}
	if len(kinds) == 0 || rapid.IntRange(0, 4).Draw(w.t, "any kind") == 0 {
		kinds = []string{"null", "boolean", "integer", "number", "string", "array", "object"}
	}
	switch kind := rapid.SampledFrom(kinds).Draw(w.t, "kind"); kind {
	case "null":
		return nil
	case "boolean":
		return rapid.Bool().Draw(w.t, "boolean")
	case "integer":
		return rapid.IntRange(-1, 7).Draw(w.t, "integer")
	case "number":
		return float64(rapid.IntRange(-2, 14).Draw(w.t, "number")) / 2
	case "string":
		return rapid.SampledFrom([]string{"", "a", "b", "ab", "bb", "abc", "kind", "xxxx"}).Draw(w.t, "string")
	case "array":
		return w.array(all, depth)
	default:
		return w.object(all, depth)
	}
}

func (w writer) array(all []object, depth int) any {
	list := []any{}
	if depth == 0 {
		return list
	}
	var elements []any
	for _, s := range all {
		prefix, _ := s["prefixItems"].([]any)
		elements = append(elements, prefix...)
		for _, keyword := range []string{"items", "contains"} {
			if s[keyword] != nil {
				elements = append(elements, s[keyword])
			}
		}
	}
	for range rapid.IntRange(0, 3).Draw(w.t, "length") {
		list = append(list, w.value(elements, depth-1))
	}
	return list
}

func (w writer) object(all []object, depth int) any {
	out := object{}
	if depth == 0 {
		return out
	}
	for _, name := range append([]string{"kk", "other", "b2"}, names...) {
		var schemas []any
		named := false
		for _, s := range all {
			properties, _ := s["properties"].(object)
			if schema, ok := properties[name]; ok {
				schemas, named = append(schemas, schema), true
			}
			patterns, _ := s["patternProperties"].(object)
			for _, pattern := range []string{"^x", "^k", "b"} {
				schema, ok := patterns[pattern]
				if ok && (strings.HasPrefix(name, strings.TrimPrefix(pattern, "^")) && pattern != "b" || pattern == "b" && strings.Contains(name, "b")) {
					schemas, named = append(schemas, schema), true
				}
			}
			if other, ok := s["additionalProperties"]; ok && other != true && text(w.t, other) != "{}" {
				schemas, named = append(schemas, other), true
			}
			if required, _ := s["required"].([]string); strings.Contains(" "+strings.Join(required, " ")+" ", " "+name+" ") {
				named = true
			}
		}
		if named && rapid.IntRange(0, 2).Draw(w.t, "there") > 0 {
			out[name] = w.value(schemas, depth-1)
		}
	}
	return out
}

// TestAcceptedIsValid: what was written with a schema is valid under every schema
// that is said to accept it.
func TestAcceptedIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := drawDocument(t)
		oldText := text(t, before)
		older, err := jsonschema.Parse(oldText, nil)
		if err != nil {
			t.Skip("no schema")
		}
		oldSchema := compile(t, oldText)
		w := writer{t, before["$defs"].(object)}
		for range 5 {
			after := any(before)
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				after = mutate(t, after, 3)
			}
			if m, ok := after.(object); ok && m["$defs"] == nil {
				m["$defs"] = before["$defs"]
			}
			newText := text(t, after)
			newer, err := jsonschema.Parse(newText, nil)
			if err != nil || len(jsonschema.Compare(older, newer, "new")) > 0 {
				continue
			}
			newSchema := compile(t, newText)
			for range 5 {
				out := text(t, w.value([]any{before}, 4))
				document, err := js.UnmarshalJSON(strings.NewReader(out))
				require.NoError(t, err)
				if oldSchema.Validate(document) != nil {
					continue
				}
				if err := newSchema.Validate(document); err != nil {
					t.Fatalf("%s\nwas written with %s\nand is not valid under %s\n%v", out, oldText, newText, err)
				}
			}
		}
	})
}

// TestItself: a schema accepts itself, in another place too.
func TestItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema := text(t, drawDocument(t))
		s, err := jsonschema.Parse(schema, nil)
		if err != nil {
			t.Skip("no schema")
		}
		require.Empty(t, jsonschema.Compare(s, s, "new"), schema)
		moved, err := jsonschema.Parse(`{"$id":"schema:///moved","$ref":"it.json"}`, map[string]string{"it.json": schema})
		require.NoError(t, err)
		require.Empty(t, jsonschema.Compare(s, moved, "new"), schema)
		require.Empty(t, jsonschema.Compare(moved, s, "new"), schema)
	})
}
