package publicapi

import (
	"context"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
)

// Keys is KeyService.
type Keys struct {
	adminv1.UnimplementedKeyServiceServer
	backend *backend.Backend
}

// NewKeys returns the handler.
func NewKeys(b *backend.Backend) *Keys { return &Keys{backend: b} }

// CreateKey makes a key.
func (s *Keys) CreateKey(ctx context.Context, req *adminv1.CreateKeyRequest) (*adminv1.CreateKeyResponse, error) {
	// Before what is wrong with the request: that is none of others' business.
	caller := callerOf(ctx)
	if err := caller.Admin(); err != nil {
		return nil, err
	}
	made := &registryv1.CreateKeyRequest{
		Name:               req.GetName(),
		ProduceBytesPerSec: req.GetProduceBytesPerSec(),
		ConsumeBytesPerSec: req.GetConsumeBytesPerSec(),
	}
	// 0 is without limit between services; whoever wants that here says nothing.
	for _, quota := range []struct {
		name  string
		bytes *int64
	}{{"produce_bytes_per_sec", req.ProduceBytesPerSec}, {"consume_bytes_per_sec", req.ConsumeBytesPerSec}} {
		if quota.bytes != nil && *quota.bytes <= 0 {
			return nil, backend.ErrInvalidRequest.WithMessage("%s must be more than 0, or absent for no limit, got %d", quota.name, *quota.bytes)
		}
	}
	for i, acl := range req.GetAcls() {
		action, ok := actions[acl.GetAction()]
		if !ok {
			return nil, backend.ErrInvalidRequest.WithMessage("acls[%d].action must be read, write or admin, got %q", i, acl.GetAction())
		}
		made.Grants = append(made.Grants, &registryv1.Grant{Action: action, TopicPrefix: acl.GetTopicPrefix()})
	}
	key, secret, err := s.backend.CreateKey(ctx, caller, made)
	if err != nil {
		return nil, err
	}
	return &adminv1.CreateKeyResponse{Key: keyOf(key), Secret: secret}, nil
}

// ListKeys returns all keys.
func (s *Keys) ListKeys(ctx context.Context, _ *adminv1.ListKeysRequest) (*adminv1.ListKeysResponse, error) {
	keys, err := s.backend.ListKeys(ctx, callerOf(ctx))
	if err != nil {
		return nil, err
	}
	resp := &adminv1.ListKeysResponse{Keys: make([]*adminv1.Key, len(keys))}
	for i, key := range keys {
		resp.Keys[i] = keyOf(key)
	}
	return resp, nil
}

// DeleteKey revokes a key.
func (s *Keys) DeleteKey(ctx context.Context, req *adminv1.DeleteKeyRequest) (*adminv1.DeleteKeyResponse, error) {
	if err := s.backend.RevokeKey(ctx, callerOf(ctx), req.GetKeyId()); err != nil {
		return nil, err
	}
	return &adminv1.DeleteKeyResponse{}, nil
}

// actions are the words for actions. They are in the API, so they never change.
var actions = map[string]registryv1.Action{
	"read":  registryv1.Action_ACTION_READ,
	"write": registryv1.Action_ACTION_WRITE,
	"admin": registryv1.Action_ACTION_ADMIN,
}

func keyOf(key *registryv1.Key) *adminv1.Key {
	k := &adminv1.Key{
		KeyId:       key.GetKeyId(),
		Name:        key.GetName(),
		Acls:        make([]*adminv1.Acl, len(key.GetGrants())),
		CreatedAtMs: key.GetCreatedAtMs(),
		Disabled:    key.GetDisabled(),
	}
	for i, g := range key.GetGrants() {
		k.Acls[i] = &adminv1.Acl{TopicPrefix: g.GetTopicPrefix()}
		for word, action := range actions {
			if action == g.GetAction() {
				k.Acls[i].Action = word
			}
		}
	}
	if quota := key.GetProduceBytesPerSec(); quota > 0 {
		k.ProduceBytesPerSec = &quota
	}
	if quota := key.GetConsumeBytesPerSec(); quota > 0 {
		k.ConsumeBytesPerSec = &quota
	}
	return k
}
