package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/registry/internal/key"
	"github.com/sluiceio/sluice/services/registry/internal/keyring"
)

const (
	// createTimeout is how long a new key waits until every registry knows it.
	// It is valid either way.
	createTimeout = 2 * time.Second
	// confirmTimeout is how long a revocation waits for registries and gateways
	// that do not answer. It is longer than any lease.
	confirmTimeout = 25 * time.Second
)

// Keys is KeyService.
type Keys struct {
	registryv1.UnimplementedKeyServiceServer

	ring  *keyring.Ring
	peers *Peers
	now   func() time.Time
}

// NewKeys returns the handler.
func NewKeys(ring *keyring.Ring, peers *Peers, now func() time.Time) *Keys {
	return &Keys{ring: ring, peers: peers, now: now}
}

// CreateKey makes a key.
func (k *Keys) CreateKey(ctx context.Context, req *registryv1.CreateKeyRequest) (*registryv1.CreateKeyResponse, error) {
	spec := specOf(req)
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	secret := key.NewSecret()
	row := key.New(spec, secret, k.now())
	revision, err := k.ring.Create(ctx, row)
	if err != nil {
		return nil, err
	}
	// Whoever gets a key may use it at once, through any gateway.
	confirming, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	if err := k.peers.confirm(confirming, revision); err != nil {
		k.peers.Logger.WarnContext(ctx, "a new key is not known everywhere yet", "key_id", row.GetKeyId(), "error", err)
	}
	return &registryv1.CreateKeyResponse{Key: keyOf(row), Secret: secret}, nil
}

// ListKeys returns all keys.
func (k *Keys) ListKeys(ctx context.Context, _ *registryv1.ListKeysRequest) (*registryv1.ListKeysResponse, error) {
	if err := k.ring.Sync(ctx); err != nil {
		return nil, keyring.ErrBehind.Because(err)
	}
	resp := &registryv1.ListKeysResponse{}
	for _, row := range k.ring.List() {
		resp.Keys = append(resp.Keys, keyOf(row))
	}
	return resp, nil
}

// RevokeKey ends a key.
func (k *Keys) RevokeKey(ctx context.Context, req *registryv1.RevokeKeyRequest) (*registryv1.RevokeKeyResponse, error) {
	revision, err := k.ring.Revoke(ctx, req.GetKeyId())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	if err := k.peers.confirm(ctx, revision); err != nil {
		return nil, errUnconfirmed.WithMessage(
			"key %s is revoked, but not every part of the cluster has said that it knows; ask again", req.GetKeyId()).Because(err)
	}
	return &registryv1.RevokeKeyResponse{}, nil
}

// ConfirmKeys waits for a revision.
func (k *Keys) ConfirmKeys(ctx context.Context, req *registryv1.ConfirmKeysRequest) (*registryv1.ConfirmKeysResponse, error) {
	return &registryv1.ConfirmKeysResponse{}, k.ring.Confirm(ctx, req.GetRevision())
}

// AckKeys notes that a watcher has forgotten what it was told.
func (k *Keys) AckKeys(_ context.Context, req *registryv1.AckKeysRequest) (*registryv1.AckKeysResponse, error) {
	return &registryv1.AckKeysResponse{}, k.ring.Watches().Ack(req.GetWatchId(), req.GetSequence())
}

// WatchKeys tells of revocations, and of being alive.
func (k *Keys) WatchKeys(_ *registryv1.WatchKeysRequest, stream grpc.ServerStreamingServer[registryv1.WatchKeysResponse]) error {
	ctx := stream.Context()
	select {
	case <-k.ring.Known():
	case <-ctx.Done():
		return ctx.Err()
	}
	watches := k.ring.Watches()
	watch := watches.Begin()
	defer watch.End()
	alive := time.NewTicker(watches.Lease() / 3)
	defer alive.Stop()
	for {
		// A ring that answers nobody gives nobody leave to remember.
		if !k.ring.Current() {
			return keyring.ErrBehind
		}
		notice := watch.Next()
		err := stream.Send(&registryv1.WatchKeysResponse{
			Reset_:        notice.Reset,
			RevokedKeyIds: notice.Revoked,
			WatchId:       watch.ID,
			Sequence:      notice.Sequence,
			LeaseMs:       watches.Lease().Milliseconds(),
		})
		if err != nil {
			return err
		}
		select {
		case <-watch.Wake():
		case <-alive.C:
		case <-ctx.Done():
			return errs.New(errs.Canceled, "WATCH_ENDED", "the watch has ended")
		}
	}
}
