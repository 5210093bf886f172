// Package avroschema reads Avro schemas and says whether one can read what was
// written with another, by Avro's own rules of schema resolution: both are the
// work of hamba/avro.
package avroschema

import (
	"fmt"

	"github.com/hamba/avro/v2"

	"github.com/sluiceio/sluice/services/registry/internal/schema/jsontext"
)

// Schema is a schema that was read.
type Schema struct {
	root      avro.Schema
	canonical []byte
}

// Canonical returns the same bytes for texts that differ only in white space, in
// the order of fields and in how numbers are written. Avro's own canonical form
// leaves out defaults and aliases, which matter here.
func (s *Schema) Canonical() []byte { return s.canonical }

// Parse reads a schema. Imports are the texts of schemas whose names it uses, each
// after those that it uses itself.
func Parse(text string, imports []string) (*Schema, error) {
	document, err := jsontext.Decode(text)
	if err != nil {
		return nil, err
	}
	// The library's own cache would make names of one subject known to all.
	names := &avro.SchemaCache{}
	for _, other := range imports {
		if _, err := parse(other, names); err != nil {
			return nil, fmt.Errorf("reference: %w", err)
		}
	}
	root, err := parse(text, names)
	if err != nil {
		return nil, err
	}
	return &Schema{root: root, canonical: jsontext.Canonical(document)}, nil
}

func parse(text string, names *avro.SchemaCache) (s avro.Schema, err error) {
	// Bounds what the library gets to see.
	if _, err := jsontext.Decode(text); err != nil {
		return nil, err
	}
	// A registry must not end with a schema that the library did not expect.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it cannot be read: %v", p)
		}
	}()
	return avro.ParseWithCache(text, "", names)
}

// Compare returns what stands against reading with a schema what was written with
// another one. Word, "new" or "old", says which of them the reading one is.
func Compare(written, reading *Schema, word string) []string {
	if err := avro.NewSchemaCompatibility().Compatible(reading.root, written.root); err != nil {
		return []string{fmt.Sprintf("%s schema does not read what was written with the other: %v", word, err)}
	}
	return nil
}
