// Package rpc has the handlers of the registry's gRPC services.
package rpc

import (
	"context"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/registry/internal/keyring"
)

// Auth is AuthService.
type Auth struct {
	registryv1.UnimplementedAuthServiceServer

	// Nil lets everybody in.
	ring *keyring.Ring
}

// NewAuth returns the handler of a server that asks for keys, or, with a nil
// ring, of one that does not.
func NewAuth(ring *keyring.Ring) *Auth { return &Auth{ring: ring} }

// Authenticate finds the key that has a secret. Where none is needed everybody is
// the administrator, whatever secret comes along: a client that is set up for a
// server with keys works on one without.
func (a *Auth) Authenticate(_ context.Context, req *registryv1.AuthenticateRequest) (*registryv1.AuthenticateResponse, error) {
	if a.ring == nil {
		return &registryv1.AuthenticateResponse{Principal: &registryv1.Principal{
			Id:    anonymous,
			Name:  anonymous,
			Admin: true,
		}}, nil
	}
	if req.GetSecret() == "" {
		return nil, keyring.ErrUnauthenticated.WithMessage("a key is needed: Authorization: Bearer <key>, or X-Es-Key: <key>")
	}
	row, err := a.ring.Authenticate(req.GetSecret())
	if err != nil {
		return nil, err
	}
	return &registryv1.AuthenticateResponse{Principal: principalOf(row)}, nil
}
