// Package schema reads schemas of all languages and says which of them can follow
// which. It is pure: text in, verdicts out.
//
// A schema *accepts* another when whoever reads with it understands what was
// written with the other. From that alone come all levels: backward is that the
// new one accepts the old, forward that the old one accepts the new.
package schema

import (
	"crypto/sha256"
	"fmt"
	"unicode/utf8"

	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/registry/internal/schema/avroschema"
	"github.com/sluiceio/sluice/services/registry/internal/schema/jsonschema"
	"github.com/sluiceio/sluice/services/registry/internal/schema/protoschema"
)

// MaxBytes is the longest text of a schema.
const MaxBytes = 1 << 20

// ErrInvalid is that a text is no schema.
var ErrInvalid = errs.New(errs.InvalidArgument, "INVALID_SCHEMA", "invalid schema")

// Type is a schema language. Its values are stored: they must not change.
type Type string

// The languages.
const (
	JSONSchema Type = "json_schema"
	Avro       Type = "avro"
	Protobuf   Type = "protobuf"
)

// Source is a schema as text.
type Source struct {
	Type Type
	Text string
	// Imports are the schemas that this one may refer to, and those that they
	// refer to, each after what it refers to itself.
	Imports []Import
}

// Import is a schema by the name that others use for it.
type Import struct {
	Name, Text string
}

// form is a schema of one language.
type form interface {
	// Canonical is the same for schemas that mean the same to the letter.
	Canonical() []byte
}

// Schema is a schema that was read.
type Schema struct {
	Type Type
	// Fingerprint tells schemas apart; references are the caller's to compare.
	Fingerprint [sha256.Size]byte
	form        form
}

// Parse reads a schema. ErrInvalid.
func Parse(src Source) (*Schema, error) {
	if len(src.Text) > MaxBytes {
		return nil, ErrInvalid.WithMessage("invalid schema: it has %d bytes, at most %d are allowed", len(src.Text), MaxBytes)
	}
	if !utf8.ValidString(src.Text) {
		return nil, ErrInvalid.WithMessage("invalid schema: it is not UTF-8")
	}
	parse, ok := parsers[src.Type]
	if !ok {
		return nil, ErrInvalid.WithMessage("schema type must be json_schema, avro or protobuf, got %q", src.Type)
	}
	form, err := parse(src)
	if err != nil {
		return nil, ErrInvalid.WithMessage("invalid %s: %v", src.Type, err)
	}
	return &Schema{Type: src.Type, Fingerprint: sha256.Sum256(form.Canonical()), form: form}, nil
}

var parsers = map[Type]func(Source) (form, error){
	JSONSchema: func(src Source) (form, error) { return jsonschema.Parse(src.Text, src.byName()) },
	Protobuf:   func(src Source) (form, error) { return protoschema.Parse(src.Text, src.byName()) },
	Avro: func(src Source) (form, error) {
		imports := make([]string, len(src.Imports))
		for i, other := range src.Imports {
			imports[i] = other.Text
		}
		return avroschema.Parse(src.Text, imports)
	},
}

func (src Source) byName() map[string]string {
	imports := make(map[string]string, len(src.Imports))
	for _, i := range src.Imports {
		imports[i.Name] = i.Text
	}
	return imports
}

// Serialized returns a Protobuf schema as the base64 of a FileDescriptorProto, and
// nothing for others.
func (s *Schema) Serialized() (string, error) {
	if form, ok := s.form.(*protoschema.Schema); ok {
		return form.Serialized()
	}
	return "", nil
}

// Accepts returns what stands against reading with s what was written with
// another schema: nothing when it can be read. Each text names the newer of the
// two by word.
func (s *Schema) Accepts(written *Schema, word string) []string {
	if s.Type != written.Type {
		return []string{fmt.Sprintf("%s schema changes the type from %s to %s", word, written.Type, s.Type)}
	}
	switch reader := s.form.(type) {
	case *jsonschema.Schema:
		return jsonschema.Compare(written.form.(*jsonschema.Schema), reader, word)
	case *avroschema.Schema:
		return avroschema.Compare(written.form.(*avroschema.Schema), reader, word)
	case *protoschema.Schema:
		return protoschema.Compare(written.form.(*protoschema.Schema), reader, word)
	default:
		return []string{fmt.Sprintf("%s schema has the unknown type %s", word, s.Type)}
	}
}
