package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRewrite(t *testing.T) {
	folder := t.TempDir()
	document := filepath.Join(folder, "document.json")
	patch := filepath.Join(folder, "patch.json")
	require.NoError(t, os.WriteFile(document, []byte(`{
		"info": {"title": "generated", "version": "none"},
		"parameters": [{"name": "offset", "type": "string", "format": "int64"}],
		"paths": {"/a": {
			"get": {"responses": {"200": {"description": "ok"}, "default": {"description": "generated"}}},
			"put": {"responses": {"200": {"description": "ok"}}}
		}},
		"definitions": {
			"Size": {"type": "string", "format": "uint64"},
			"Key": {"type": "string", "format": "byte"},
			"Text": {"type": "string"}
		}
	}`), 0o600))
	require.NoError(t, os.WriteFile(patch, []byte(`{
		"info": {"title": "Sluice <API>"},
		"definitions": {"Key": {"format": null}, "Text": null, "Error": {"type": "object"}}
	}`), 0o600))

	require.NoError(t, rewrite(document, patch))

	written, err := os.ReadFile(document)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"info": {"title": "Sluice <API>", "version": "none"},
		"parameters": [{"name": "offset", "type": "integer", "format": "int64"}],
		"paths": {"/a": {
			"get": {"responses": {"200": {"description": "ok"}, "default": {"$ref": "#/responses/Error"}}},
			"put": {"responses": {"200": {"description": "ok"}}}
		}},
		"definitions": {
			"Size": {"type": "integer", "format": "uint64"},
			"Key": {"type": "string"},
			"Error": {"type": "object"}
		}
	}`, string(written))
	require.NotContains(t, string(written), `\u003c`, "text stays readable")
}

// The examples of RFC 7386, appendix A.
func TestMerge(t *testing.T) {
	for _, example := range []struct{ target, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		// Ours: things with names.
		{`[{"name":"a","x":1},{"name":"b"}]`, `{"a":{"x":null,"y":2}}`, `[{"name":"a","y":2},{"name":"b"}]`},
	} {
		var target, patch any
		require.NoError(t, json.Unmarshal([]byte(example.target), &target))
		require.NoError(t, json.Unmarshal([]byte(example.patch), &patch))
		got, err := json.Marshal(merge(target, patch))
		require.NoError(t, err)
		require.JSONEq(t, example.want, string(got), "%s with %s", example.target, example.patch)
	}
}
