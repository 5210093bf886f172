package sluice

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/google/uuid"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator"
	"github.com/sluiceio/sluice/services/kit/lease"
	"github.com/sluiceio/sluice/services/kit/life"
	"github.com/sluiceio/sluice/services/sluice/internal/stack"
)

// openPresence makes the session whose lease the node's row is under.
func (n *Node) openPresence() error {
	incarnation, err := uuid.New().MarshalBinary()
	if err != nil {
		return fmt.Errorf("node's row: %w", err)
	}
	key, row, err := coordinator.NodeRegistration(&persistv1.NodeRow{
		Id:          n.id,
		Roles:       roles(n.cfg.Roles).names(),
		Address:     n.internalAddress(),
		Rack:        n.cfg.Rack,
		Doors:       n.doors,
		Incarnation: incarnation,
	})
	if err != nil {
		return err
	}
	n.session = lease.NewSession(n.etcd, lease.Config{
		TTL: n.cfg.LeaseTTL, Identity: key, Bar: coordinator.ForgottenNodeKey(n.id), Logger: n.logger,
	})
	n.session.Register(key, row)
	return nil
}

var errNotRegistered = errors.New("the node is not registered in etcd yet")

// keepLease keeps the node's lease until ctx ends, or until the node was given up.
func (n *Node) keepLease(ctx context.Context) error {
	err := n.session.Run(ctx)
	if errors.Is(err, lease.ErrBarred) {
		return fmt.Errorf("node %q was given up with forget-node and cannot come back: "+
			"start with an empty data directory and another node id: %w", n.id, err)
	}
	return err
}

// presencePart keeps the node's row in etcd. It is ready once the row is there.
func (n *Node) presencePart() stack.Part {
	var registered atomic.Bool
	return stack.Part{
		Name: "presence",
		Run: func(ctx context.Context) error {
			members := life.NewGroup(ctx)
			members.Go("lease", n.keepLease)
			members.Go("row", func(ctx context.Context) error {
				if err := n.session.Flush(ctx); err != nil {
					return err
				}
				registered.Store(true)
				return nil
			})
			return members.Wait()
		},
		Ready: func() error {
			if !registered.Load() {
				return errNotRegistered
			}
			return nil
		},
	}
}
