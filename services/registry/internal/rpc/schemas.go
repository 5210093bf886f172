package rpc

import (
	"context"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/registry/internal/catalog"
	"github.com/sluiceio/sluice/services/registry/internal/schema"
)

// Schemas is SchemaService.
type Schemas struct {
	registryv1.UnimplementedSchemaServiceServer

	catalog *catalog.Catalog
	// Has an element for each request that reads schemas and compares them.
	comparing chan struct{}
}

// maxComparing is how many requests compare schemas at once. A comparison is
// bounded, but may keep a core busy for a while, and whoever may read can ask for
// one.
const maxComparing = 2

// NewSchemas returns the handler.
func NewSchemas(c *catalog.Catalog) *Schemas {
	return &Schemas{catalog: c, comparing: make(chan struct{}, maxComparing)}
}

// turn waits until a request may compare schemas; done ends its turn.
func (s *Schemas) turn(ctx context.Context) (done func(), err error) {
	select {
	case s.comparing <- struct{}{}:
		return func() { <-s.comparing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// RegisterSchema adds a version, or finds it.
func (s *Schemas) RegisterSchema(ctx context.Context, req *registryv1.RegisterSchemaRequest) (*registryv1.RegisterSchemaResponse, error) {
	done, err := s.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	draft := draftOf(req.GetSubject(), req.GetType(), req.GetSchema(), req.GetReferences())
	var version catalog.Version
	if req.GetLookupOnly() {
		version, err = s.catalog.Lookup(ctx, draft, req.GetIncludeDeleted())
	} else {
		version, err = s.catalog.Register(ctx, draft)
	}
	if err != nil {
		return nil, err
	}
	return &registryv1.RegisterSchemaResponse{Schema: schemaOf(version)}, nil
}

// GetSchema finds a schema.
func (s *Schemas) GetSchema(ctx context.Context, req *registryv1.GetSchemaRequest) (*registryv1.GetSchemaResponse, error) {
	var version catalog.Version
	var err error
	if req.GetId() != 0 {
		version, err = s.catalog.ByID(ctx, req.GetId())
	} else {
		version, err = s.catalog.Find(ctx, req.GetSubject(), req.GetVersion(), req.GetIncludeDeleted())
	}
	if err != nil {
		return nil, err
	}
	found := schemaOf(version)
	if req.GetSerialized() {
		if found.Schema, err = s.catalog.Serialized(version); err != nil {
			return nil, err
		}
	}
	return &registryv1.GetSchemaResponse{Schema: found}, nil
}

// ListSchemas returns all schemas, or those of a subject.
func (s *Schemas) ListSchemas(ctx context.Context, req *registryv1.ListSchemasRequest) (*registryv1.ListSchemasResponse, error) {
	versions, err := s.catalog.List(ctx, req.GetSubject(), req.GetIncludeDeleted())
	if err != nil {
		return nil, err
	}
	resp := &registryv1.ListSchemasResponse{Schemas: make([]*registryv1.Schema, len(versions))}
	for i, v := range versions {
		resp.Schemas[i] = schemaOf(v)
	}
	return resp, nil
}

// CheckSchema tells whether a schema could be registered.
func (s *Schemas) CheckSchema(ctx context.Context, req *registryv1.CheckSchemaRequest) (*registryv1.CheckSchemaResponse, error) {
	done, err := s.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	draft := draftOf(req.GetSubject(), req.GetType(), req.GetSchema(), req.GetReferences())
	verdict, err := s.catalog.Check(ctx, draft, req.GetVersion())
	if err != nil {
		return nil, err
	}
	return &registryv1.CheckSchemaResponse{Compatible: verdict.Compatible(), Messages: verdict.Messages()}, nil
}

// DeleteSchema deletes a version of a subject, or all of it.
func (s *Schemas) DeleteSchema(ctx context.Context, req *registryv1.DeleteSchemaRequest) (*registryv1.DeleteSchemaResponse, error) {
	versions, err := s.catalog.Delete(ctx, req.GetSubject(), req.GetVersion(), req.GetPermanent())
	if err != nil {
		return nil, err
	}
	return &registryv1.DeleteSchemaResponse{Versions: versions}, nil
}

// GetSchemaConfig returns compatibility and mode.
func (s *Schemas) GetSchemaConfig(ctx context.Context, req *registryv1.GetSchemaConfigRequest) (*registryv1.GetSchemaConfigResponse, error) {
	settings, err := s.catalog.Settings(ctx, req.GetSubject())
	if err != nil {
		return nil, err
	}
	return &registryv1.GetSchemaConfigResponse{Compatibility: string(settings.Level), Mode: settings.Mode}, nil
}

// SetSchemaConfig sets them.
func (s *Schemas) SetSchemaConfig(ctx context.Context, req *registryv1.SetSchemaConfigRequest) (*registryv1.SetSchemaConfigResponse, error) {
	var level *schema.Level
	if req.Compatibility != nil {
		level = new(schema.Level(req.GetCompatibility()))
	}
	if err := s.catalog.Set(ctx, req.GetSubject(), level, req.Mode); err != nil {
		return nil, err
	}
	settings, err := s.catalog.Settings(ctx, req.GetSubject())
	if err != nil {
		return nil, err
	}
	return &registryv1.SetSchemaConfigResponse{Compatibility: string(settings.Level), Mode: settings.Mode}, nil
}

// schemaTypes are the languages on the wire.
var schemaTypes = map[schema.Type]registryv1.SchemaType{
	schema.JSONSchema: registryv1.SchemaType_SCHEMA_TYPE_JSON_SCHEMA,
	schema.Avro:       registryv1.SchemaType_SCHEMA_TYPE_AVRO,
	schema.Protobuf:   registryv1.SchemaType_SCHEMA_TYPE_PROTOBUF,
}

func draftOf(subject string, t registryv1.SchemaType, text string, references []*registryv1.SchemaReference) catalog.Draft {
	draft := catalog.Draft{Subject: subject, Text: text}
	for name, wire := range schemaTypes {
		if wire == t {
			draft.Type = name
		}
	}
	for _, ref := range references {
		draft.References = append(draft.References, catalog.Reference{Name: ref.GetName(), Subject: ref.GetSubject(), Version: ref.GetVersion()})
	}
	return draft
}

func schemaOf(v catalog.Version) *registryv1.Schema {
	s := &registryv1.Schema{
		Id:      v.GetId(),
		Subject: v.GetSubject(),
		Version: v.GetVersion(),
		Type:    schemaTypes[schema.Type(v.GetType())],
		Schema:  v.GetSchema(),
		Deleted: v.Deleted,
	}
	for _, ref := range v.GetReferences() {
		s.References = append(s.References, &registryv1.SchemaReference{Name: ref.GetName(), Subject: ref.GetSubject(), Version: ref.GetVersion()})
	}
	return s
}
