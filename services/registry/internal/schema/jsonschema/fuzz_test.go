package jsonschema_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/registry/internal/schema/jsonschema"
)

// FuzzCompare: whatever two texts are, reading and comparing them ends, and what
// is a schema accepts itself.
func FuzzCompare(f *testing.F) {
	for _, r := range rows {
		f.Add(r.old, r.new)
	}
	f.Add(`{"$ref":"#"}`, `{"$dynamicRef":"#a","$dynamicAnchor":"a"}`)
	f.Add(`{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}`, `{"items":[{},{}],"additionalItems":false}`)
	f.Add(`{"minimum":1e400}`, `{"multipleOf":1e-400}`)
	f.Fuzz(func(t *testing.T, before, after string) {
		older, err := jsonschema.Parse(before, map[string]string{"other.json": after})
		if err != nil {
			return
		}
		require.Empty(t, jsonschema.Compare(older, older, "new"))
		newer, err := jsonschema.Parse(after, nil)
		if err != nil {
			return
		}
		jsonschema.Compare(older, newer, "new")
		jsonschema.Compare(newer, older, "old")
	})
}
