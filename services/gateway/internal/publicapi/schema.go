package publicapi

import (
	"context"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	schemav1 "github.com/sluiceio/sluice/gen/go/sluice/schema/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
)

// Schemas is SchemaService.
type Schemas struct {
	schemav1.UnimplementedSchemaServiceServer
	backend *backend.Backend
}

// NewSchemas returns the handler.
func NewSchemas(b *backend.Backend) *Schemas { return &Schemas{backend: b} }

// RegisterSchema adds a version to a subject.
func (s *Schemas) RegisterSchema(ctx context.Context, req *schemav1.RegisterSchemaRequest) (*schemav1.RegisterSchemaResponse, error) {
	// Before what is wrong with the request: that is none of others' business.
	caller := callerOf(ctx)
	if err := caller.Admin(); err != nil {
		return nil, err
	}
	language, err := languageOf(req.GetType())
	if err != nil {
		return nil, err
	}
	schema, err := s.backend.RegisterSchema(ctx, caller, &registryv1.RegisterSchemaRequest{
		Subject: req.GetSubject(), Type: language, Schema: req.GetSchema(),
	})
	if err != nil {
		return nil, err
	}
	return &schemav1.RegisterSchemaResponse{Id: schema.GetId()}, nil
}

// ListSchemas returns the schemas that the caller may read.
func (s *Schemas) ListSchemas(ctx context.Context, _ *schemav1.ListSchemasRequest) (*schemav1.ListSchemasResponse, error) {
	list, err := s.backend.ListSchemas(ctx, callerOf(ctx), "", false)
	if err != nil {
		return nil, err
	}
	resp := &schemav1.ListSchemasResponse{Schemas: make([]*schemav1.Schema, len(list))}
	for i, schema := range list {
		resp.Schemas[i] = schemaOf(schema)
	}
	return resp, nil
}

// GetSchema returns a schema by its id.
func (s *Schemas) GetSchema(ctx context.Context, req *schemav1.GetSchemaRequest) (*schemav1.GetSchemaResponse, error) {
	schema, err := s.backend.SchemaByID(ctx, callerOf(ctx), req.GetId(), false)
	if err != nil {
		return nil, err
	}
	return &schemav1.GetSchemaResponse{Schema: schemaOf(schema)}, nil
}

// GetLatestSchema returns the newest version of a subject.
func (s *Schemas) GetLatestSchema(ctx context.Context, req *schemav1.GetLatestSchemaRequest) (*schemav1.GetLatestSchemaResponse, error) {
	schema, err := s.backend.FindSchema(ctx, callerOf(ctx), &registryv1.GetSchemaRequest{Subject: req.GetSubject(), Version: backend.NewestVersion})
	if err != nil {
		return nil, err
	}
	return &schemav1.GetLatestSchemaResponse{Schema: schemaOf(schema)}, nil
}

// CheckSchema tells whether a schema could be registered.
func (s *Schemas) CheckSchema(ctx context.Context, req *schemav1.CheckSchemaRequest) (*schemav1.CheckSchemaResponse, error) {
	language, err := languageOf(req.GetType())
	if err != nil {
		return nil, err
	}
	verdict, err := s.backend.CheckSchema(ctx, callerOf(ctx), &registryv1.CheckSchemaRequest{
		Subject: req.GetSubject(), Type: language, Schema: req.GetSchema(),
	})
	if err != nil {
		return nil, err
	}
	return &schemav1.CheckSchemaResponse{Compatible: verdict.GetCompatible(), Messages: verdict.GetMessages()}, nil
}

// languages are the schema languages by their public names.
var languages = map[string]registryv1.SchemaType{
	"json_schema": registryv1.SchemaType_SCHEMA_TYPE_JSON_SCHEMA,
	"avro":        registryv1.SchemaType_SCHEMA_TYPE_AVRO,
	"protobuf":    registryv1.SchemaType_SCHEMA_TYPE_PROTOBUF,
}

func languageOf(name string) (registryv1.SchemaType, error) {
	language, ok := languages[name]
	if !ok {
		return 0, backend.ErrInvalidRequest.WithMessage("type must be json_schema, avro or protobuf, got %q", name)
	}
	return language, nil
}

func schemaOf(s *registryv1.Schema) *schemav1.Schema {
	out := &schemav1.Schema{Id: s.GetId(), Subject: s.GetSubject(), Version: s.GetVersion(), Schema: s.GetSchema()}
	for name, language := range languages {
		if language == s.GetType() {
			out.Type = name
		}
	}
	return out
}
