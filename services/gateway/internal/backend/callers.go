package backend

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/callers"
	"github.com/sluiceio/sluice/services/gateway/internal/credential"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// anonymous is who everybody is for a registry that asks nobody for a key.
const anonymous = "anonymous"

// errNobodyAsked is that the registry lets everybody in although this gateway was
// told that callers need a key, and may be reached from everywhere for that.
var errNobodyAsked = errs.New(errs.Unavailable, "AUTH_MISMATCH",
	"this gateway runs with --auth required and the registry does not")

// introductions tell who callers are. Principals are remembered while one
// registry is being watched (package callers); otherwise a registry is asked
// about each call.
type introductions struct {
	logger   *slog.Logger
	registry *pool
	// required is that nobody is let in without a key.
	required bool
	// revoked is called with the ids of keys that are no more.
	revoked func(keys ...string)
	memory  callers.Memory
	// Whom the memory is of; nil while nobody is watched.
	watched atomic.Pointer[Node]
}

// Secret finds the secret that a caller sends in the values of the headers
// Authorization and X-Es-Key; empty when there is none. Where callers need no key,
// what the headers have is not looked at, be it meant for a proxy or malformed.
func (b *Backend) Secret(authorization, esKey []string) (string, error) {
	secret, err := credential.Secret(authorization, esKey)
	if err != nil && !b.callers.required {
		return "", nil
	}
	return secret, err
}

// Known says that Authenticate lets a secret in without asking anybody: it is
// remembered, or nobody needs one.
func (b *Backend) Known(secret string) bool {
	if !b.callers.required {
		return true
	}
	known, _ := b.callers.memory.Ask(secret, time.Now())
	return known != nil
}

// Authenticate returns who has a secret, which is empty when none came. It is
// cheap to call for each request, and for a connection that stays open it must be
// called for each: a revoked key is refused from the moment on at which its
// revocation was answered.
func (b *Backend) Authenticate(ctx context.Context, secret string) (grants.Caller, error) {
	p, err := b.callers.principal(ctx, secret)
	if err != nil {
		return grants.Caller{}, err
	}
	if b.callers.required && p.GetId() == anonymous {
		return grants.Caller{}, errNobodyAsked
	}
	return grants.CallerOf(p), nil
}

func (in *introductions) principal(ctx context.Context, secret string) (*registryv1.Principal, error) {
	known, question := in.memory.Ask(secret, time.Now())
	if known != nil {
		return known, nil
	}
	if node := in.watched.Load(); node != nil && question.Trusted {
		p, err := in.ask(ctx, secret, func(ctx context.Context, do func(grpc.ClientConnInterface, ...grpc.CallOption) error) error {
			return reach(ctx, in.registry.dialer, *node, do)
		})
		if err == nil {
			in.memory.Answer(question, p)
		}
		if !neverSent(err) {
			return p, err
		}
	}
	return in.ask(ctx, secret, in.registry.call)
}

func (in *introductions) ask(ctx context.Context, secret string, call func(context.Context, func(grpc.ClientConnInterface, ...grpc.CallOption) error) error) (*registryv1.Principal, error) {
	var resp *registryv1.AuthenticateResponse
	err := call(ctx, func(conn grpc.ClientConnInterface, opts ...grpc.CallOption) (err error) {
		resp, err = registryv1.NewAuthServiceClient(conn).Authenticate(ctx, &registryv1.AuthenticateRequest{Secret: secret}, opts...)
		return err
	})
	return resp.GetPrincipal(), err
}

// follow watches one registry after the other until ctx ends.
func (in *introductions) follow(ctx context.Context) error {
	wait := backoff.New(backoff.Policy{Initial: 20 * time.Millisecond, Max: time.Second})
	for turn := 0; ctx.Err() == nil; turn++ {
		nodes, err := in.registry.finder.Find(ctx, RoleRegistry)
		if err == nil && len(nodes) > 0 {
			node := nodes[turn%len(nodes)]
			_ = confine.Attempt(ctx, in.logger, func() error { return in.followOne(ctx, node, wait.Reset) })
			in.watched.Store(nil)
			in.memory.Reset()
		}
		_ = wait.Wait(ctx)
	}
	return nil
}

// followOne watches one registry until that fails.
func (in *introductions) followOne(ctx context.Context, node Node, heard func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := in.registry.dialer.Conn(ctx, node.ID, node.Address)
	if err != nil {
		return err
	}
	keys := registryv1.NewKeyServiceClient(conn)
	stream, err := keys.WatchKeys(ctx, &registryv1.WatchKeysRequest{})
	if err != nil {
		return err
	}
	for {
		told, err := stream.Recv()
		if err != nil {
			return err
		}
		heard()
		if told.GetReset_() {
			in.memory.Reset()
		}
		in.memory.Forget(told.GetRevokedKeyIds()...)
		in.revoked(told.GetRevokedKeyIds()...)
		lease := time.Duration(told.GetLeaseMs()) * time.Millisecond
		// From before it is sent: the registry counts from when it comes.
		sent := time.Now()
		acknowledging, cancel := context.WithTimeout(ctx, lease)
		_, err = keys.AckKeys(acknowledging, &registryv1.AckKeysRequest{WatchId: told.GetWatchId(), Sequence: told.GetSequence()})
		cancel()
		if err != nil {
			return err
		}
		in.watched.Store(&node)
		in.memory.Trust(sent.Add(lease))
	}
}
