package jsonschema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/registry/internal/schema/jsonschema"
)

func parse(t *testing.T, text string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.Parse(text, nil)
	require.NoError(t, err, text)
	return s
}

// row is two schemas, and what stands against either following the other.
type row struct {
	name     string
	old, new string
	// Against new after old, and the other way round.
	forth, back []string
}

func none() []string { return nil }

var rows = []row{
	{
		name:  "a required field",
		old:   `{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`,
		new:   `{"type":"object","properties":{"id":{"type":"integer"},"phone":{"type":"string"}},"required":["id","phone"]}`,
		forth: []string{"new schema adds required field 'phone'"},
		back:  []string{"new schema removes property 'phone'"},
	},
	{
		name: "an optional field",
		old:  `{"type":"object","properties":{"id":{"type":"integer"}}}`,
		new:  `{"type":"object","properties":{"id":{"type":"integer"},"phone":{"type":"string"}}}`,
		back: []string{"new schema removes property 'phone'"},
	},
	{
		name: "a type",
		old:  `{"properties":{"a":{"type":"integer"}}}`,
		new:  `{"properties":{"a":{"type":"number"}}}`,
		back: []string{"new schema narrows the type from number to integer at 'a'"},
	},
	{
		name: "null",
		old:  `{"properties":{"a":{"type":"string"}}}`,
		new:  `{"properties":{"a":{"type":["string","null"]}}}`,
		back: []string{"new schema narrows the type from null or string to string at 'a'"},
	},
	{
		name: "null by anyOf",
		old:  `{"properties":{"a":{"type":["string","null"]}}}`,
		new:  `{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`,
	},
	{
		name: "an enum's value",
		old:  `{"enum":["a","b"]}`,
		new:  `{"enum":["a","b","c"]}`,
		back: []string{`new schema no longer allows the value "c"`},
	},
	{
		name: "an enum",
		old:  `{"properties":{"a":{"enum":["x","yy"]}}}`,
		new:  `{"properties":{"a":{"type":"string","maxLength":2}}}`,
		back: []string{"new schema allows only listed values at 'a'"},
	},
	{
		name: "openness",
		old:  `{"type":"object","properties":{"a":{}},"additionalProperties":false}`,
		new:  `{"type":"object","properties":{"a":{}}}`,
		back: []string{"new schema no longer allows additional properties"},
	},
	{
		name: "a closed object's field",
		old:  `{"properties":{"a":{}},"additionalProperties":false}`,
		new:  `{"properties":{"a":{},"b":{"type":"string"}},"additionalProperties":false}`,
		back: []string{"new schema no longer allows the property 'b'", "new schema removes property 'b'"},
	},
	{
		name: "the schema of other properties",
		old:  `{"additionalProperties":{"type":"integer"}}`,
		new:  `{"additionalProperties":{"type":"number"}}`,
		back: []string{"new schema restricts additional properties"},
	},
	{
		name:  "a property where others have a schema",
		old:   `{"additionalProperties":{"type":"integer"}}`,
		new:   `{"properties":{"a":{"type":"string"}},"additionalProperties":{"type":"integer"}}`,
		forth: []string{"new schema narrows the type from integer to string at 'a'"},
		back:  []string{"new schema narrows the type from string to integer at 'a'", "new schema removes property 'a'"},
	},
	{
		name: "bounds",
		old:  `{"type":"integer","minimum":1,"maximum":9}`,
		new:  `{"type":"integer","exclusiveMinimum":0,"exclusiveMaximum":9.5}`,
	},
	{
		name: "wider bounds",
		old:  `{"type":"number","minimum":1,"maximum":9}`,
		new:  `{"type":"number","minimum":0.5,"maximum":9}`,
		back: []string{"new schema raises the minimum to 1"},
	},
	{
		name: "an open bound",
		old:  `{"type":"number","exclusiveMaximum":9}`,
		new:  `{"type":"number","maximum":9}`,
		back: []string{"new schema lowers the maximum to 9"},
	},
	{
		name: "multiples",
		old:  `{"type":"number","multipleOf":6}`,
		new:  `{"type":"number","multipleOf":3}`,
		back: []string{"new schema allows only multiples of 6"},
	},
	{
		name: "lengths",
		old:  `{"type":"string","minLength":2,"maxLength":3}`,
		new:  `{"type":"string","minLength":1,"maxLength":3}`,
		back: []string{"new schema raises minLength to 2"},
	},
	{
		name: "a longest length",
		old:  `{"type":"string","maxLength":3}`,
		new:  `{"type":"string"}`,
		back: []string{"new schema lowers maxLength to 3"},
	},
	{
		name: "a pattern",
		old:  `{"type":"string","pattern":"^a"}`,
		new:  `{"type":"string"}`,
		back: []string{`new schema allows only the pattern "^a"`},
	},
	{
		name: "a format",
		old:  `{"type":"string","format":"email"}`,
		new:  `{"type":"string"}`,
		back: []string{`new schema allows only the format "email"`},
	},
	{
		name: "sizes of arrays",
		old:  `{"type":"array","minItems":2,"maxItems":4,"uniqueItems":true}`,
		new:  `{"type":"array","minItems":1,"maxItems":5}`,
		back: []string{"new schema allows no element twice"},
	},
	{
		name: "elements",
		old:  `{"type":"array","items":{"type":"object","properties":{"a":{"type":"integer"}}}}`,
		new:  `{"type":"array","items":{"type":"object","properties":{"a":{"type":"number"}}}}`,
		back: []string{"new schema narrows the type from number to integer at '[].a'"},
	},
	{
		name: "a tuple",
		old:  `{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}`,
		new:  `{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"number"}}`,
		back: []string{
			"new schema narrows the type from number to integer at '[1]'",
			"new schema no longer allows any value at '[]'",
		},
	},
	{
		name: "a nested required field",
		old:  `{"properties":{"address":{"type":"object","properties":{"zip":{}},"required":["zip"]}}}`,
		new:  `{"properties":{"address":{"type":"object","properties":{"zip":{}}}}}`,
		back: []string{"new schema adds required field 'zip' at 'address'"},
	},
	{
		name: "an alternative",
		old:  `{"oneOf":[{"type":"string"},{"type":"integer"}]}`,
		new:  `{"oneOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]}`,
		back: []string{"new schema no longer allows the value null"},
	},
	{
		name: "a tagged alternative",
		old: `{"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"integer"}},"required":["kind"]},
			{"type":"object","properties":{"kind":{"const":"b"}},"required":["kind"]}]}`,
		new: `{"oneOf":[{"type":"object","properties":{"kind":{"const":"a"},"x":{"type":"number"}},"required":["kind"]},
			{"type":"object","properties":{"kind":{"const":"b"}},"required":["kind"]},
			{"type":"object","properties":{"kind":{"const":"c"}},"required":["kind"]}]}`,
		back: []string{"new schema has no alternative in oneOf for what was allowed"},
	},
	{
		name:  "alternatives that overlap",
		old:   `{"oneOf":[{"type":"integer"}]}`,
		new:   `{"oneOf":[{"type":"integer"},{"minimum":5}]}`,
		forth: []string{"new schema has more than one alternative in oneOf for what was allowed"},
		back:  []string{"new schema has no alternative in oneOf for what was allowed"},
	},
	{
		name: "what all must be",
		old:  `{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}}},{"properties":{"a":{"minimum":3}}}]}`,
		new:  `{"type":"object","properties":{"a":{"type":"number","minimum":2}}}`,
		back: []string{"new schema narrows the type from number to integer at 'a'", "new schema raises the minimum to 3 at 'a'"},
	},
	{
		name: "behind a reference",
		old:  `{"$defs":{"n":{"type":"integer"}},"properties":{"a":{"$ref":"#/$defs/n"}}}`,
		new:  `{"$defs":{"m":{"type":"number"}},"properties":{"a":{"$ref":"#/$defs/m"}}}`,
		back: []string{"new schema narrows the type from number to integer at 'a'"},
	},
	{
		name: "recursion",
		old:  `{"$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}}}}},"$ref":"#/$defs/tree"}`,
		new:  `{"type":"object","properties":{"v":{"type":"number"},"kids":{"type":"array","items":{"$ref":"#"}}}}`,
		back: []string{"new schema narrows the type from number to integer at 'kids[].v'", "new schema narrows the type from number to integer at 'v'"},
	},
	{
		name: "a negation",
		old:  `{"type":"string"}`,
		new:  `{"not":{"type":"integer"}}`,
		back: []string{"new schema narrows the type from null or boolean or number or string or array or object to string"},
	},
	{
		name: "names of properties",
		old:  `{"type":"object","propertyNames":{"maxLength":3}}`,
		new:  `{"type":"object","propertyNames":{"maxLength":4}}`,
		back: []string{"new schema restricts the names of properties"},
	},
	{
		name: "properties by pattern",
		old:  `{"type":"object","patternProperties":{"^x":{"type":"integer"}}}`,
		new:  `{"type":"object","patternProperties":{"^x":{"type":"number"}}}`,
		back: []string{`new schema restricts the properties that match "^x"`},
	},
	{
		name: "a field beside another",
		old:  `{"type":"object","properties":{"a":{},"b":{}},"dependentRequired":{"a":["b"]}}`,
		new:  `{"type":"object","properties":{"a":{},"b":{}}}`,
		back: []string{"new schema adds required field 'b' beside 'a'"},
	},
	{
		name: "an if",
		old:  `{"type":"object","properties":{"a":{"type":"integer"}}}`,
		new:  `{"type":"object","properties":{"a":{"type":"integer"}},"if":{"required":["a"]},"then":{"properties":{"a":{"type":"number"}}}}`,
	},
	{
		name: "everything",
		old:  `false`,
		new:  `true`,
		back: []string{"new schema no longer allows any value"},
	},
}

func TestCompare(t *testing.T) {
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			before, after := parse(t, r.old), parse(t, r.new)
			require.Equal(t, r.forth, jsonschema.Compare(before, after, "new"), "forth")
			require.Equal(t, r.back, jsonschema.Compare(after, before, "new"), "back")
			require.Equal(t, none(), jsonschema.Compare(before, before, "new"), "itself")
			require.Equal(t, none(), jsonschema.Compare(after, after, "new"), "itself")
		})
	}
}

// TestManyAlternatives: a union of events gets one more.
func TestManyAlternatives(t *testing.T) {
	union := func(n int, tagged bool) string {
		var all []string
		for i := range n {
			tag := "{}"
			if tagged {
				tag = fmt.Sprintf(`{"const":"kind-%d"}`, i)
			}
			all = append(all, fmt.Sprintf(`{"type":"object","properties":{"kind":%s,"of-%d":{"type":"integer"}},"required":["kind","of-%[2]d"],"additionalProperties":false}`, tag, i))
		}
		return `{"oneOf":[` + strings.Join(all, ",") + `]}`
	}
	for _, tagged := range []bool{true, false} {
		before, after := parse(t, union(40, tagged)), parse(t, union(41, tagged))
		require.Empty(t, jsonschema.Compare(before, after, "new"))
		require.NotEmpty(t, jsonschema.Compare(after, before, "new"))
	}
}
