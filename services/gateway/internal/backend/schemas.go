package backend

import (
	"context"

	"google.golang.org/grpc"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
)

// A subject is named after its topic ("orders-value", "orders-key"), so a grant
// that covers the topic covers the subject, which stands below it.

// RegisterSchema adds a version to a subject, or finds the schema there.
func (b *Backend) RegisterSchema(ctx context.Context, caller grants.Caller, req *registryv1.RegisterSchemaRequest) (*registryv1.Schema, error) {
	if err := caller.Admin(); err != nil {
		return nil, err
	}
	return b.registerSchema(ctx, req)
}

// LookupSchema finds the version of a subject that has a schema.
func (b *Backend) LookupSchema(ctx context.Context, caller grants.Caller, req *registryv1.RegisterSchemaRequest) (*registryv1.Schema, error) {
	if err := maySubject(caller, req.GetSubject()); err != nil {
		return nil, err
	}
	req.LookupOnly = true
	return b.registerSchema(ctx, req)
}

func (b *Backend) registerSchema(ctx context.Context, req *registryv1.RegisterSchemaRequest) (*registryv1.Schema, error) {
	var resp *registryv1.RegisterSchemaResponse
	err := b.schemas(ctx, func(ctx context.Context, c registryv1.SchemaServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.RegisterSchema(ctx, req, opts...)
		return err
	})
	return resp.GetSchema(), err
}

// SchemaByID returns a schema by its id; serialized, a Protobuf schema is the base64
// of a descriptor. Ids are counted up, so that one exists
// is no secret; what it stands for is.
func (b *Backend) SchemaByID(ctx context.Context, caller grants.Caller, id int32, serialized bool) (*registryv1.Schema, error) {
	if id < 1 {
		return nil, invalid("a schema's id must be 1 or more, got %d", id)
	}
	schema, err := b.getSchema(ctx, &registryv1.GetSchemaRequest{Id: id, Serialized: serialized})
	if err != nil {
		return nil, err
	}
	return schema, maySubject(caller, schema.GetSubject())
}

// NewestVersion is the version number of a subject's newest version.
const NewestVersion = -1

// FindSchema returns a version of a subject as it asks: one that was deleted only
// if it is asked for.
func (b *Backend) FindSchema(ctx context.Context, caller grants.Caller, req *registryv1.GetSchemaRequest) (*registryv1.Schema, error) {
	if err := maySubject(caller, req.GetSubject()); err != nil {
		return nil, err
	}
	// What was checked is the subject.
	req.Id = 0
	return b.getSchema(ctx, req)
}

func (b *Backend) getSchema(ctx context.Context, req *registryv1.GetSchemaRequest) (*registryv1.Schema, error) {
	var resp *registryv1.GetSchemaResponse
	err := b.schemas(ctx, func(ctx context.Context, c registryv1.SchemaServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.GetSchema(ctx, req, opts...)
		return err
	})
	return resp.GetSchema(), err
}

// ListSchemas returns the versions of a subject in order, or all that the caller
// may read when it is empty.
func (b *Backend) ListSchemas(ctx context.Context, caller grants.Caller, subject string, deleted bool) ([]*registryv1.Schema, error) {
	if subject != "" {
		if err := maySubject(caller, subject); err != nil {
			return nil, err
		}
	}
	var resp *registryv1.ListSchemasResponse
	err := b.schemas(ctx, func(ctx context.Context, c registryv1.SchemaServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.ListSchemas(ctx, &registryv1.ListSchemasRequest{Subject: subject, IncludeDeleted: deleted}, opts...)
		return err
	})
	if err != nil {
		return nil, err
	}
	list := []*registryv1.Schema{}
	for _, schema := range resp.GetSchemas() {
		if maySubject(caller, schema.GetSubject()) == nil {
			list = append(list, schema)
		}
	}
	return list, nil
}

// CheckSchema tells what stands against a schema as a new version.
func (b *Backend) CheckSchema(ctx context.Context, caller grants.Caller, req *registryv1.CheckSchemaRequest) (*registryv1.CheckSchemaResponse, error) {
	if err := maySubject(caller, req.GetSubject()); err != nil {
		return nil, err
	}
	var resp *registryv1.CheckSchemaResponse
	err := b.schemas(ctx, func(ctx context.Context, c registryv1.SchemaServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.CheckSchema(ctx, req, opts...)
		return err
	})
	return resp, err
}

// DeleteSchema deletes a version of a subject, its newest, or all when it is 0,
// and returns their numbers.
func (b *Backend) DeleteSchema(ctx context.Context, caller grants.Caller, subject string, version int32, permanent bool) ([]int32, error) {
	if err := caller.Admin(); err != nil {
		return nil, err
	}
	var resp *registryv1.DeleteSchemaResponse
	err := b.schemas(ctx, func(ctx context.Context, c registryv1.SchemaServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.DeleteSchema(ctx, &registryv1.DeleteSchemaRequest{Subject: subject, Version: version, Permanent: permanent}, opts...)
		return err
	})
	return resp.GetVersions(), err
}

// SchemaConfig returns the compatibility and the mode of a subject, or those that
// all others fall back to when it is empty.
func (b *Backend) SchemaConfig(ctx context.Context, caller grants.Caller, subject string) (*registryv1.GetSchemaConfigResponse, error) {
	if subject != "" {
		if err := maySubject(caller, subject); err != nil {
			return nil, err
		}
	}
	var resp *registryv1.GetSchemaConfigResponse
	err := b.schemas(ctx, func(ctx context.Context, c registryv1.SchemaServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.GetSchemaConfig(ctx, &registryv1.GetSchemaConfigRequest{Subject: subject}, opts...)
		return err
	})
	return resp, err
}

// SetSchemaConfig sets them.
func (b *Backend) SetSchemaConfig(ctx context.Context, caller grants.Caller, req *registryv1.SetSchemaConfigRequest) error {
	if err := caller.Admin(); err != nil {
		return err
	}
	return b.schemas(ctx, func(ctx context.Context, c registryv1.SchemaServiceClient, opts ...grpc.CallOption) error {
		_, err := c.SetSchemaConfig(ctx, req, opts...)
		return err
	})
}

func maySubject(caller grants.Caller, subject string) error {
	if caller.May(registryv1.Action_ACTION_READ, subject) {
		return nil
	}
	return grants.ErrDenied.WithMessage("the key is not granted read on the topic of this subject")
}

// schemas calls a registry.
func (b *Backend) schemas(ctx context.Context, do func(ctx context.Context, c registryv1.SchemaServiceClient, opts ...grpc.CallOption) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	return b.registry.call(ctx, func(conn grpc.ClientConnInterface, opts ...grpc.CallOption) error {
		return do(ctx, registryv1.NewSchemaServiceClient(conn), opts...)
	})
}
