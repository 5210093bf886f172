// Package protoschema reads Protobuf schemas and says whether one can read what
// was written with another. Reading is the work of bufbuild/protocompile.
//
// A schema is the text of a .proto file or, as some serializers send it, the
// base64 of a FileDescriptorProto.
//
// # What compatible means
//
// Messages on the wire have numbers and no names. A schema reads what was written
// with another when every message is still there, and of its fields by number:
//
//   - the type is the same or holds every value of the other and is written alike
//     (int32 as int64, bool as uint32, an enum as int32, a string as bytes);
//   - a single field stays single, or becomes repeated where both are written alike;
//   - none is required that was not before;
//   - none leaves a oneof, and a oneof gets no two fields that could both be set;
//   - the number was not reserved.
//
// Fields may be added and dropped: what nobody knows is passed over. Names are
// free, as are the values of enums, except those of closed ones, which are lost
// when the schema no longer has them.
package protoschema

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// root is the name of the schema's own file. No import has it.
const root = "\x00schema.proto"

// maxNesting is how deep braces may be nested.
const maxNesting = 100

// Schema is a schema that was read.
type Schema struct {
	file      protoreflect.FileDescriptor
	canonical []byte
}

// Canonical returns the same bytes for texts that differ only in white space and
// comments.
func (s *Schema) Canonical() []byte { return s.canonical }

// Parse reads a schema. Imports are the other files that it may import, by name,
// beside those that come with Protobuf.
func Parse(text string, imports map[string]string) (*Schema, error) {
	files := map[string]string{root: text}
	for name, other := range imports {
		files[name] = other
	}
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(protocompile.ResolverFunc(func(name string) (protocompile.SearchResult, error) {
			text, ok := files[name]
			if !ok {
				return protocompile.SearchResult{}, errors.New("it is not among the references of the schema")
			}
			return source(name, text)
		})),
		MaxParallelism: 1,
	}
	compiled, err := compiler.Compile(context.Background(), root)
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), root, "schema"))
	}
	s := &Schema{file: compiled[0]}
	if s.canonical, err = s.descriptor(nil); err != nil {
		return nil, err
	}
	return s, nil
}

// descriptor is the schema as a FileDescriptorProto of a file with a name.
func (s *Schema) descriptor(name *string) ([]byte, error) {
	file := protodesc.ToFileDescriptorProto(s.file)
	file.Name, file.SourceCodeInfo = name, nil
	return proto.MarshalOptions{Deterministic: true}.Marshal(file)
}

// Serialized returns the schema as some serializers want it: the base64 of a
// FileDescriptorProto.
func (s *Schema) Serialized() (string, error) {
	name := "default.proto"
	binary, err := s.descriptor(&name)
	return base64.StdEncoding.EncodeToString(binary), err
}

func source(name, text string) (protocompile.SearchResult, error) {
	if binary, err := base64.StdEncoding.DecodeString(text); err == nil && len(binary) > 0 {
		file := &descriptorpb.FileDescriptorProto{}
		if err := proto.Unmarshal(binary, file); err != nil {
			return protocompile.SearchResult{}, fmt.Errorf("no FileDescriptorProto: %w", err)
		}
		file.Name = &name
		complete(file.GetMessageType(), file.GetExtension())
		return protocompile.SearchResult{Proto: file}, nil
	}
	depth := 0
	for _, c := range text {
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth > maxNesting {
			return protocompile.SearchResult{}, fmt.Errorf("it is nested deeper than %d", maxNesting)
		}
	}
	return protocompile.SearchResult{Source: strings.NewReader(text)}, nil
}
