package protoschema_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sluiceio/sluice/services/registry/internal/schema/protoschema"
)

func parse(t *testing.T, text string) *protoschema.Schema {
	t.Helper()
	s, err := protoschema.Parse(text, nil)
	require.NoError(t, err, text)
	return s
}

func proto3(body string) string { return `syntax = "proto3"; package shop; ` + body }
func proto2(body string) string { return `syntax = "proto2"; package shop; ` + body }

var rows = []struct {
	name        string
	old, new    string
	forth, back []string
}{
	{
		name: "a field",
		old:  proto3(`message M { int32 a = 1; }`),
		new:  proto3(`message M { int32 a = 1; string b = 2; }`),
	},
	{
		name: "a name",
		old:  proto3(`message M { int32 a = 1; }`),
		new:  proto3(`message M { int32 b = 1; }`),
	},
	{
		name: "a package",
		old:  proto3(`message M { N n = 1; } message N {}`),
		new:  `syntax = "proto3"; package store.v2; message M { N n = 1; } message N {}`,
	},
	{
		name: "a message",
		old:  proto3(`message M { message N {} }`),
		new:  proto3(`message M { message N {} message O {} } message P {}`),
		back: []string{"new schema removes message 'M.O'", "new schema removes message 'P'"},
	},
	{
		name: "a wider number",
		old:  proto3(`message M { int32 a = 1; }`),
		new:  proto3(`message M { int64 a = 1; }`),
		back: []string{"new schema changes the type of field 'M.a' from int64 to int32"},
	},
	{
		name:  "another encoding",
		old:   proto3(`message M { int32 a = 1; }`),
		new:   proto3(`message M { sint32 a = 1; }`),
		forth: []string{"new schema changes the type of field 'M.a' from int32 to sint32"},
		back:  []string{"new schema changes the type of field 'M.a' from sint32 to int32"},
	},
	{
		name: "bytes",
		old:  proto3(`message M { string a = 1; }`),
		new:  proto3(`message M { bytes a = 1; }`),
		back: []string{"new schema changes the type of field 'M.a' from bytes to string"},
	},
	{
		name: "several",
		old:  proto3(`message M { string a = 1; }`),
		new:  proto3(`message M { repeated string a = 1; }`),
		back: []string{"new schema makes repeated field 'M.a' single"},
	},
	{
		name:  "several numbers",
		old:   proto3(`message M { int32 a = 1; }`),
		new:   proto3(`message M { repeated int32 a = 1; }`),
		forth: []string{"new schema makes field 'M.a' repeated"},
		back:  []string{"new schema makes repeated field 'M.a' single"},
	},
	{
		name:  "a required field",
		old:   proto2(`message M { optional int32 a = 1; }`),
		new:   proto2(`message M { required int32 a = 1; required int32 b = 2; }`),
		forth: []string{"new schema adds required field 'M.a'", "new schema adds required field 'M.b'"},
	},
	{
		name:  "into a oneof",
		old:   proto3(`message M { int32 a = 1; }`),
		new:   proto3(`message M { oneof one { int32 a = 1; int32 b = 2; } }`),
		forth: nil,
		back:  []string{"new schema removes field 'M.a' from oneof 'one'", "new schema removes field 'M.b' from oneof 'one'"},
	},
	{
		name:  "two into a oneof",
		old:   proto3(`message M { int32 a = 1; int32 b = 2; }`),
		new:   proto3(`message M { oneof one { int32 a = 1; int32 b = 2; } }`),
		forth: []string{"new schema moves several fields into oneof 'M.one'"},
		back:  []string{"new schema removes field 'M.a' from oneof 'one'", "new schema removes field 'M.b' from oneof 'one'"},
	},
	{
		name:  "optional is no oneof",
		old:   proto3(`message M { optional int32 a = 1; optional int32 b = 2; }`),
		new:   proto3(`message M { int32 a = 1; int32 b = 2; }`),
		forth: nil,
	},
	{
		name:  "a reserved number",
		old:   proto3(`message M { reserved 2; int32 a = 1; }`),
		new:   proto3(`message M { int32 a = 1; int32 b = 2; }`),
		forth: []string{"new schema uses number 2, which was reserved, for 'M.b'"},
	},
	{
		name: "a value of an open enum",
		old:  proto3(`enum E { NONE = 0; A = 1; } message M { E e = 1; }`),
		new:  proto3(`enum E { NONE = 0; } message M { E e = 1; }`),
	},
	{
		name:  "a value of a closed enum",
		old:   proto2(`enum E { NONE = 0; A = 1; } message M { optional E e = 1; }`),
		new:   proto2(`enum E { NONE = 0; } message M { optional E e = 1; }`),
		forth: []string{"new schema removes value 'A' of enum 'E'"},
	},
	{
		name:  "a map's value",
		old:   proto3(`message M { map<string, bool> m = 1; }`),
		new:   proto3(`message M { map<string, int64> m = 1; }`),
		forth: nil,
		back:  []string{"new schema changes the type of field 'M.MEntry.value' from int64 to bool"},
	},
	{
		name:  "another message",
		old:   proto3(`message A {} message B {} message M { A a = 1; }`),
		new:   proto3(`message A {} message B {} message M { B a = 1; }`),
		forth: []string{"new schema changes the type of field 'M.a' from A to B"},
		back:  []string{"new schema changes the type of field 'M.a' from B to A"},
	},
	{
		name:  "recursion",
		old:   proto3(`message T { int32 v = 1; repeated T kids = 2; }`),
		new:   proto3(`message T { int64 v = 1; repeated T kids = 2; }`),
		forth: nil,
		back:  []string{"new schema changes the type of field 'T.v' from int64 to int32"},
	},
}

func TestCompare(t *testing.T) {
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			before, after := parse(t, r.old), parse(t, r.new)
			require.Equal(t, r.forth, protoschema.Compare(before, after, "new"), "forth")
			require.Equal(t, r.back, protoschema.Compare(after, before, "new"), "back")
			require.Empty(t, protoschema.Compare(before, before, "new"))
			require.Empty(t, protoschema.Compare(after, after, "new"))
		})
	}
}

func TestSameness(t *testing.T) {
	a := parse(t, proto3("message M { int32 a = 1; }"))
	require.Equal(t, a.Canonical(), parse(t, proto3("// A message.\nmessage M {\n  int32 a = 1;\n}\n")).Canonical())
	require.NotEqual(t, a.Canonical(), parse(t, proto3("message M { int32 a = 2; }")).Canonical())
}

func TestImports(t *testing.T) {
	const uses = `syntax = "proto3"; import "order.proto"; import "google/protobuf/timestamp.proto"; message M { shop.Order o = 1; google.protobuf.Timestamp t = 2; }`
	_, err := protoschema.Parse(uses, map[string]string{"order.proto": proto3("message Order {}")})
	require.NoError(t, err)
	_, err = protoschema.Parse(uses, nil)
	require.ErrorContains(t, err, "not among the references")
	_, err = protoschema.Parse(`syntax = "proto3"; import "/etc/passwd";`, nil)
	require.Error(t, err)
}

// TestDescriptor: Python's serializer sends a descriptor in base64.
func TestDescriptor(t *testing.T) {
	file := protodesc.ToFileDescriptorProto(timestamppb.File_google_protobuf_timestamp_proto)
	// It leaves out what goes without saying.
	for _, f := range file.GetMessageType()[0].GetField() {
		f.JsonName = nil
	}
	binary, err := proto.Marshal(file)
	require.NoError(t, err)
	s := parse(t, base64.StdEncoding.EncodeToString(binary))
	serialized, err := s.Serialized()
	require.NoError(t, err)
	require.Equal(t, s.Canonical(), parse(t, serialized).Canonical())
	require.Empty(t, protoschema.Compare(s, s, "new"))
	require.NotEmpty(t, protoschema.Compare(s, parse(t, proto3("message M {}")), "new"))
}

func TestBadSchemas(t *testing.T) {
	for _, text := range []string{
		"message", proto3("message M { int32 a = 1; int32 b = 1; }"), proto3("message M { N n = 1; }"), "AAAA", `syntax = "proto9";`,
		proto3(strings.Repeat("message M {", 200) + strings.Repeat("}", 200)),
	} {
		_, err := protoschema.Parse(text, nil)
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
		older, err := protoschema.Parse(before, nil)
		if err != nil {
			return
		}
		require.Empty(t, protoschema.Compare(older, older, "new"))
		newer, err := protoschema.Parse(after, map[string]string{"other.proto": before})
		if err != nil {
			return
		}
		protoschema.Compare(older, newer, "new")
		protoschema.Compare(newer, older, "old")
	})
}
