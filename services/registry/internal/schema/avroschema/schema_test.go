package avroschema_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/registry/internal/schema/avroschema"
)

func parse(t *testing.T, text string, imports ...string) *avroschema.Schema {
	t.Helper()
	s, err := avroschema.Parse(text, imports)
	require.NoError(t, err, text)
	return s
}

func record(fields string) string {
	return `{"type":"record","name":"Order","namespace":"shop","fields":[` + fields + `]}`
}

const id = `{"name":"id","type":"long"}`

var rows = []struct {
	name        string
	old, new    string
	forth, back bool
}{
	{"nothing", record(id), record(id), true, true},
	{"documentation", record(id), record(`{"name":"id","type":"long","doc":"a number"}`), true, true},
	{"a field with a default", record(id), record(id + `,{"name":"note","type":"string","default":""}`), true, true},
	{"a field without one", record(id), record(id + `,{"name":"note","type":"string"}`), false, true},
	{"a promotion", record(`{"name":"id","type":"int"}`), record(id), true, false},
	{"another type", record(id), record(`{"name":"id","type":"string"}`), false, false},
	{"null", record(id), record(`{"name":"id","type":["null","long"]}`), true, false},
	{"a symbol", `{"type":"enum","name":"E","symbols":["A"]}`, `{"type":"enum","name":"E","symbols":["A","B"]}`, true, false},
	{"a default symbol", `{"type":"enum","name":"E","symbols":["A","B"]}`, `{"type":"enum","name":"E","symbols":["A"],"default":"A"}`, true, true},
	{"another size", `{"type":"fixed","name":"F","size":4}`, `{"type":"fixed","name":"F","size":5}`, false, false},
	{"within an array", `{"type":"array","items":"int"}`, `{"type":"array","items":"double"}`, true, false},
	{"within a map", `{"type":"map","values":"int"}`, `{"type":"map","values":"string"}`, false, false},
	{"a name with an alias", record(id), `{"type":"record","name":"Purchase","namespace":"shop","aliases":["Order"],"fields":[` + id + `]}`, true, false},
	{
		"recursion",
		`{"type":"record","name":"T","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","T"]}]}`,
		`{"type":"record","name":"T","fields":[{"name":"v","type":"long"},{"name":"next","type":["null","T"]}]}`,
		true, false,
	},
}

func TestCompare(t *testing.T) {
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			before, after := parse(t, r.old), parse(t, r.new)
			forth, back := avroschema.Compare(before, after, "new"), avroschema.Compare(after, before, "new")
			require.Equal(t, r.forth, len(forth) == 0, "forth: %v", forth)
			require.Equal(t, r.back, len(back) == 0, "back: %v", back)
			require.Empty(t, avroschema.Compare(before, before, "new"))
			require.Empty(t, avroschema.Compare(after, after, "new"))
		})
	}
}

func TestSameness(t *testing.T) {
	require.Equal(t, parse(t, record(id)).Canonical(), parse(t, `{"fields":[{"type":"long","name":"id"}], "name":"Order","namespace":"shop","type":"record"}`).Canonical())
	require.NotEqual(t, parse(t, record(`{"name":"id","type":"long","default":1}`)).Canonical(), parse(t, record(`{"name":"id","type":"long","default":2}`)).Canonical())
}

func TestReferences(t *testing.T) {
	const uses = `{"type":"record","name":"List","fields":[{"name":"orders","type":{"type":"array","items":"shop.Order"}}]}`
	parse(t, uses, record(id))
	// What one schema was told of is unknown to the next.
	_, err := avroschema.Parse(uses, nil)
	require.Error(t, err)
}

func TestBadSchemas(t *testing.T) {
	for _, text := range []string{
		"", "string", "{}", `{"type":"record"}`, `{"type":"text"}`, `"nothing"`, `[]extra`, `{"type":"enum","name":"E","symbols":["A","A"]}`,
		record(`{"name":"id","type":"long","default":"x"}`), record(id + "," + id),
	} {
		_, err := avroschema.Parse(text, nil)
		require.Error(t, err, text)
	}
}

// FuzzCompare: whatever two texts are, reading and comparing them ends, and what
// is a schema reads what was written with it.
func FuzzCompare(f *testing.F) {
	for _, r := range rows {
		f.Add(r.old, r.new)
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		older, err := avroschema.Parse(before, nil)
		if err != nil {
			return
		}
		require.Empty(t, avroschema.Compare(older, older, "new"))
		newer, err := avroschema.Parse(after, []string{before})
		if err != nil {
			return
		}
		avroschema.Compare(older, newer, "new")
		avroschema.Compare(newer, older, "old")
	})
}
