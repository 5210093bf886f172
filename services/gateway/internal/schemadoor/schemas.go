package schemadoor

import (
	"strconv"
	"strings"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
)

// schema is a schema as it is shown. Without a type it is Avro.
type schema struct {
	Subject    string      `json:"subject,omitempty"`
	Version    int32       `json:"version,omitempty"`
	ID         int32       `json:"id,omitempty"`
	Type       string      `json:"schemaType,omitempty"`
	References []reference `json:"references,omitempty"`
	Schema     string      `json:"schema"`
	Deleted    bool        `json:"deleted,omitempty"`
	// The highest id of all, where it was asked for.
	MaxID int32 `json:"maxId,omitempty"`
}

func schemaOf(s *registryv1.Schema) schema {
	out := schema{Subject: s.GetSubject(), Version: s.GetVersion(), ID: s.GetId(), Schema: s.GetSchema(), Deleted: s.GetDeleted()}
	for name, language := range languages {
		if language == s.GetType() && name != "AVRO" {
			out.Type = name
		}
	}
	for _, ref := range s.GetReferences() {
		out.References = append(out.References, reference{ref.GetName(), ref.GetSubject(), ref.GetVersion()})
	}
	return out
}

func empty(*exchange) (any, error)    { return struct{}{}, nil }
func contexts(*exchange) (any, error) { return []string{"."}, nil }
func types(*exchange) (any, error)    { return []string{"JSON", "PROTOBUF", "AVRO"}, nil }

// list returns the versions of all subjects that begin as the query asks.
func (x *exchange) list() ([]*registryv1.Schema, error) {
	all, err := x.backend.ListSchemas(x.ctx, x.caller, "", x.flag("deleted"))
	if err != nil {
		return nil, err
	}
	prefix := x.URL.Query().Get("subjectPrefix")
	var list []*registryv1.Schema
	for _, s := range all {
		if strings.HasPrefix(s.GetSubject(), prefix) {
			list = append(list, s)
		}
	}
	return list, nil
}

// page returns the part of a list that the query asks for.
func page[T any](x *exchange, list []T) []T {
	query := x.URL.Query()
	if offset, err := strconv.Atoi(query.Get("offset")); err == nil && offset > 0 {
		list = list[min(offset, len(list)):]
	}
	if limit, err := strconv.Atoi(query.Get("limit")); err == nil && limit >= 0 {
		list = list[:min(limit, len(list))]
	}
	// null would be no list.
	return append([]T{}, list...)
}

func listSchemas(x *exchange) (any, error) {
	all, err := x.list()
	if err != nil {
		return nil, err
	}
	var out []schema
	for i, s := range all {
		if x.flag("latestOnly") && i+1 < len(all) && all[i+1].GetSubject() == s.GetSubject() {
			continue
		}
		out = append(out, schemaOf(s))
	}
	return page(x, out), nil
}

func listSubjects(x *exchange) (any, error) {
	all, err := x.list()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range all {
		if len(names) == 0 || names[len(names)-1] != s.GetSubject() {
			names = append(names, s.GetSubject())
		}
	}
	return page(x, names), nil
}

func (x *exchange) byID() (*registryv1.Schema, error) {
	id, err := x.id()
	if err != nil {
		return nil, err
	}
	return x.backend.SchemaByID(x.ctx, x.caller, id, x.serialized())
}

// serialized says whether a Protobuf schema is wanted as a descriptor.
func (x *exchange) serialized() bool { return x.URL.Query().Get("format") == "serialized" }

func schemaByID(x *exchange) (any, error) {
	s, err := x.byID()
	if err != nil {
		return nil, err
	}
	out := schemaOf(s)
	out.ID, out.Deleted = 0, false
	if x.flag("fetchMaxId") {
		// Nobody needs the highest id of what it may not read.
		out.MaxID = s.GetId()
	}
	return out, nil
}

func textByID(x *exchange) (any, error) {
	s, err := x.byID()
	return plain(s.GetSchema()), err
}

func subjectsOfID(x *exchange) (any, error) {
	s, err := x.byID()
	if err != nil {
		return nil, err
	}
	if s.GetDeleted() && !x.flag("deleted") {
		return []string{}, nil
	}
	return []string{s.GetSubject()}, nil
}

func versionsOfID(x *exchange) (any, error) {
	type place struct {
		Subject string `json:"subject"`
		Version int32  `json:"version"`
	}
	s, err := x.byID()
	if err != nil {
		return nil, err
	}
	if s.GetDeleted() && !x.flag("deleted") {
		return []place{}, nil
	}
	return []place{{s.GetSubject(), s.GetVersion()}}, nil
}

func listVersions(x *exchange) (any, error) {
	list, err := x.backend.ListSchemas(x.ctx, x.caller, x.subject(), x.flag("deleted"))
	if err != nil {
		return nil, err
	}
	var numbers []int32
	for _, s := range list {
		numbers = append(numbers, s.GetVersion())
	}
	return page(x, numbers), nil
}

func (x *exchange) find() (*registryv1.Schema, error) {
	number, err := x.number()
	if err != nil {
		return nil, err
	}
	return x.backend.FindSchema(x.ctx, x.caller, &registryv1.GetSchemaRequest{
		Subject: x.subject(), Version: number, IncludeDeleted: x.flag("deleted"), Serialized: x.serialized(),
	})
}

func version(x *exchange) (any, error) {
	s, err := x.find()
	if err != nil {
		return nil, err
	}
	return schemaOf(s), nil
}

func text(x *exchange) (any, error) {
	s, err := x.find()
	return plain(s.GetSchema()), err
}

func referencedBy(x *exchange) (any, error) {
	s, err := x.find()
	if err != nil {
		return nil, err
	}
	all, err := x.backend.ListSchemas(x.ctx, x.caller, "", false)
	if err != nil {
		return nil, err
	}
	ids := []int32{}
	for _, user := range all {
		for _, ref := range user.GetReferences() {
			if ref.GetSubject() == s.GetSubject() && ref.GetVersion() == s.GetVersion() {
				ids = append(ids, user.GetId())
				break
			}
		}
	}
	return ids, nil
}

func (x *exchange) draft() (*registryv1.RegisterSchemaRequest, error) {
	language, err := x.language()
	if err != nil {
		return nil, err
	}
	return &registryv1.RegisterSchemaRequest{
		Subject: x.subject(), Type: language, Schema: x.body.Schema, References: x.references(),
	}, nil
}

func register(x *exchange) (any, error) {
	draft, err := x.draft()
	if err != nil {
		return nil, err
	}
	s, err := x.backend.RegisterSchema(x.ctx, x.caller, draft)
	if err != nil {
		return nil, err
	}
	return struct {
		ID      int32 `json:"id"`
		Version int32 `json:"version"`
	}{s.GetId(), s.GetVersion()}, nil
}

func lookup(x *exchange) (any, error) {
	draft, err := x.draft()
	if err != nil {
		return nil, err
	}
	draft.IncludeDeleted = x.flag("deleted")
	s, err := x.backend.LookupSchema(x.ctx, x.caller, draft)
	if err != nil {
		return nil, err
	}
	return schemaOf(s), nil
}

func deleteSubject(x *exchange) (any, error) {
	return x.backend.DeleteSchema(x.ctx, x.caller, x.subject(), 0, x.flag("permanent"))
}

func deleteVersion(x *exchange) (any, error) {
	number, err := x.number()
	if err != nil {
		return nil, err
	}
	deleted, err := x.backend.DeleteSchema(x.ctx, x.caller, x.subject(), number, x.flag("permanent"))
	if err != nil {
		return nil, err
	}
	return deleted[0], nil
}

func check(x *exchange) (any, error) {
	language, err := x.language()
	if err != nil {
		return nil, err
	}
	req := &registryv1.CheckSchemaRequest{Subject: x.subject(), Type: language, Schema: x.body.Schema, References: x.references()}
	if x.PathValue("version") != "" {
		if req.Version, err = x.number(); err != nil {
			return nil, err
		}
	}
	verdict, err := x.backend.CheckSchema(x.ctx, x.caller, req)
	if err != nil {
		return nil, err
	}
	out := struct {
		Compatible bool     `json:"is_compatible"`
		Messages   []string `json:"messages,omitempty"`
	}{Compatible: verdict.GetCompatible()}
	if x.flag("verbose") {
		out.Messages = verdict.GetMessages()
	}
	return out, nil
}
