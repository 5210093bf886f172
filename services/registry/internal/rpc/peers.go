package rpc

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// Node is a registry.
type Node struct{ ID, Address string }

// Dialer gives connections to nodes.
type Dialer interface {
	Conn(ctx context.Context, node, address string) (grpc.ClientConnInterface, error)
}

// Peers are all registries of the cluster, this one among them.
type Peers struct {
	// Find returns those whose lease is alive in etcd.
	Find   func(ctx context.Context) ([]Node, error)
	Dialer Dialer
	Logger *slog.Logger
}

// errUnconfirmed is that a registry did not say in time that it has applied a
// change.
var errUnconfirmed = errs.New(errs.Unavailable, "UNCONFIRMED", "a registry has not confirmed the change in time")

// confirm waits until every registry has confirmed a revision. One that is gone
// from etcd has lost its lease and answers nobody, so it need not.
func (p *Peers) confirm(ctx context.Context, revision int64) error {
	nodes, err := p.Find(ctx)
	if err != nil {
		return errUnconfirmed.Because(err)
	}
	failures := make([]error, len(nodes))
	var asked confine.Fan
	for i, node := range nodes {
		asked.Do(func() { failures[i] = p.confirmOne(ctx, node, revision) })
	}
	asked.Wait()
	return errors.Join(failures...)
}

func (p *Peers) confirmOne(ctx context.Context, node Node, revision int64) error {
	wait := backoff.New(backoff.Policy{Initial: 10 * time.Millisecond, Max: 500 * time.Millisecond})
	for {
		err := p.ask(ctx, node, revision)
		if err == nil {
			return nil
		}
		p.Logger.WarnContext(ctx, "a registry has not confirmed a change of the keys yet", "node", node.ID, "error", err)
		if wait.Wait(ctx) != nil {
			return errUnconfirmed.Because(err)
		}
		if nodes, err := p.Find(ctx); err == nil && !slices.ContainsFunc(nodes, func(n Node) bool { return n.ID == node.ID }) {
			return nil
		}
	}
}

func (p *Peers) ask(ctx context.Context, node Node, revision int64) error {
	conn, err := p.Dialer.Conn(ctx, node.ID, node.Address)
	if err != nil {
		return err
	}
	_, err = registryv1.NewKeyServiceClient(conn).ConfirmKeys(ctx, &registryv1.ConfirmKeysRequest{Revision: revision})
	return err
}
