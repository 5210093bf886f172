package backend

import (
	"context"

	"google.golang.org/grpc"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
)

// CreateKey makes a key and returns it with its secret, which nobody can be told
// again.
func (b *Backend) CreateKey(ctx context.Context, caller grants.Caller, req *registryv1.CreateKeyRequest) (key *registryv1.Key, secret string, err error) {
	var resp *registryv1.CreateKeyResponse
	err = b.keys(ctx, caller, func(ctx context.Context, c registryv1.KeyServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.CreateKey(ctx, req, opts...)
		return err
	})
	return resp.GetKey(), resp.GetSecret(), err
}

// ListKeys returns all keys.
func (b *Backend) ListKeys(ctx context.Context, caller grants.Caller) ([]*registryv1.Key, error) {
	var resp *registryv1.ListKeysResponse
	err := b.keys(ctx, caller, func(ctx context.Context, c registryv1.KeyServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.ListKeys(ctx, &registryv1.ListKeysRequest{}, opts...)
		return err
	})
	return resp.GetKeys(), err
}

// RevokeKey ends a key. When it returns nil, no gateway accepts the key.
func (b *Backend) RevokeKey(ctx context.Context, caller grants.Caller, id string) error {
	return b.keys(ctx, caller, func(ctx context.Context, c registryv1.KeyServiceClient, opts ...grpc.CallOption) error {
		_, err := c.RevokeKey(ctx, &registryv1.RevokeKeyRequest{KeyId: id}, opts...)
		return err
	})
}

// keys calls a registry on behalf of an administrator.
func (b *Backend) keys(ctx context.Context, caller grants.Caller, do func(ctx context.Context, c registryv1.KeyServiceClient, opts ...grpc.CallOption) error) error {
	if err := caller.Admin(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	return b.registry.call(ctx, func(conn grpc.ClientConnInterface, opts ...grpc.CallOption) error {
		return do(ctx, registryv1.NewKeyServiceClient(conn), opts...)
	})
}
