// Package jsonschema reads JSON Schemas and says whether one accepts what was
// written with another.
//
// Reading, references and anchors are the work of santhosh-tekuri/jsonschema,
// whose compiled schemas are what is compared here.
//
// # What compatible means
//
// A schema accepts an older one when every document that was written with the
// older one is valid under it, and when it still has every property that the
// older one names. The second is the rule of the HTTP document and stands beside
// the first: dropping a property widens a schema, but whoever reads with it loses
// sight of a field.
//
// Written with a schema is a document that is valid under it and, wherever the
// schema neither closes an object nor says what other properties are like, has
// only properties that the schema names somewhere at that place. Without this no
// property could ever be added: an open object may already have one of that name,
// with any value.
//
// # How it is decided
//
// By proof. To accept is to show that what is known of a value, the premise,
// implies each keyword of the new schema. What cannot be shown is refused, so a
// schema that is accepted is right, and one that is refused may be right: that
// two different patterns match the same strings, for one, is never found out.
package jsonschema

import (
	"errors"
	"fmt"
	"strings"

	js "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluiceio/sluice/services/registry/internal/schema/jsontext"
)

// Schema is a schema that was read.
type Schema struct {
	root      *js.Schema
	canonical []byte
}

// Canonical returns the same bytes for texts that differ only in white space, in
// the order of fields and in how numbers are written.
func (s *Schema) Canonical() []byte { return s.canonical }

// base is where the schema stands; names of imports are relative to it.
const base = "schema:///"

// drafts are the versions of the language in which a schema may be written that
// does not say it, the first in which it is one.
var drafts = []*js.Draft{js.Draft2020, js.Draft7, js.Draft4}

// Parse reads a schema. Imports are other schemas by the name that it has for
// them; nothing else is ever loaded.
func Parse(text string, imports map[string]string) (*Schema, error) {
	document, err := jsontext.Decode(text)
	if err != nil {
		return nil, err
	}
	switch document.(type) {
	case map[string]any, bool:
	default:
		return nil, errors.New("a schema must be an object or a boolean")
	}
	others := make(loader, len(imports))
	for name, text := range imports {
		if others[name], err = jsontext.Decode(text); err != nil {
			return nil, fmt.Errorf("reference %q: %w", name, err)
		}
	}
	try := drafts
	if object, ok := document.(map[string]any); ok && object["$schema"] != nil {
		try = drafts[:1]
	}
	var first error
	for _, draft := range try {
		root, err := compile(document, others, draft)
		if err == nil {
			return &Schema{root: root, canonical: jsontext.Canonical(document)}, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

func compile(document any, others loader, draft *js.Draft) (*js.Schema, error) {
	c := js.NewCompiler()
	c.DefaultDraft(draft)
	c.UseLoader(others)
	// A format that is added narrows the schema, whether readers assert it or not.
	c.AssertFormat()
	if err := c.AddResource(base, document); err != nil {
		return nil, errors.New(plain(err))
	}
	root, err := c.Compile(base)
	if err != nil {
		return nil, errors.New(plain(err))
	}
	if at, ok := loops(root); ok {
		return nil, fmt.Errorf("it refers to itself without end at %q", strings.TrimPrefix(at, base))
	}
	return root, nil
}

// maxError is how much of the library's explanation is passed on.
const maxError = 500

// plain is a library's error in one line.
func plain(err error) string {
	text := strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), base, "")), " ")
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	return text
}

// loader finds imports by their names.
type loader map[string]any

// Load returns an import.
func (l loader) Load(url string) (any, error) {
	if document, ok := l[url]; ok {
		return document, nil
	}
	if document, ok := l[strings.TrimPrefix(url, base)]; ok {
		return document, nil
	}
	// A schema with an $id resolves names beside itself. Of two names that fit, the
	// longer one says more.
	best := ""
	for name := range l {
		if strings.HasSuffix(url, "/"+name) && len(name) > len(best) {
			best = name
		}
	}
	if best != "" {
		return l[best], nil
	}
	return nil, errors.New("it is not among the references of the schema")
}
