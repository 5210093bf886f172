// Package directory knows which nodes of the cluster run which services: the
// nodes' rows in etcd, followed and kept in memory. Gateways ask it for almost
// every request.
package directory

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator"
	"github.com/sluiceio/sluice/services/gateway"
	"github.com/sluiceio/sluice/services/kit/lease"
	"github.com/sluiceio/sluice/services/registry"
)

// Directory finds nodes by role. Its methods may be called by many goroutines.
type Directory struct {
	self    string
	logger  *slog.Logger
	watcher *lease.Watcher

	// rows are by key; only Run's goroutine has them.
	rows map[string]*persistv1.NodeRow
	// byRole is replaced whole with each change.
	byRole atomic.Pointer[map[string][]gateway.Node]
	// known is closed when byRole is there.
	known     chan struct{}
	knownOnce sync.Once
}

var _ gateway.Finder = (*Directory)(nil)

// New returns a directory as the node self sees it.
func New(self string, etcd *clientv3.Client, logger *slog.Logger) *Directory {
	return &Directory{
		self:    self,
		logger:  logger,
		watcher: lease.NewWatcher(etcd, coordinator.NodeKey(""), logger),
		known:   make(chan struct{}),
	}
}

// Run follows the rows until ctx ends.
func (d *Directory) Run(ctx context.Context) error {
	return d.watcher.Run(ctx, d.apply)
}

// Find returns the nodes with a role: this one first, if it is one of them, and
// the others in an order that differs from change to change, so that gateways
// spread over them. It waits until the rows were read once.
func (d *Directory) Find(ctx context.Context, role string) ([]gateway.Node, error) {
	select {
	case <-d.known:
		return (*d.byRole.Load())[role], nil
	case <-ctx.Done():
		return nil, fmt.Errorf("find a %s: %w", role, ctx.Err())
	}
}

// Registries returns the nodes that are registries at this moment, in etcd and
// not just as far as this node has heard: a revocation may leave none out.
func (d *Directory) Registries(ctx context.Context) ([]registry.Node, error) {
	if err := d.watcher.Sync(ctx); err != nil {
		return nil, err
	}
	nodes, err := d.Find(ctx, gateway.RoleRegistry)
	registries := make([]registry.Node, len(nodes))
	for i, n := range nodes {
		registries[i] = registry.Node{ID: n.ID, Address: n.Address}
	}
	return registries, err
}

func (d *Directory) apply(update lease.Update) {
	if update.Snapshot {
		d.rows = make(map[string]*persistv1.NodeRow, len(update.Changes))
	}
	for _, change := range update.Changes {
		if change.Deleted {
			delete(d.rows, change.Key)
			continue
		}
		row := &persistv1.NodeRow{}
		if err := proto.Unmarshal(change.Value, row); err != nil {
			d.logger.Error("row of a node cannot be read", "key", change.Key, "err", err)
			delete(d.rows, change.Key)
			continue
		}
		d.rows[change.Key] = row
	}
	byRole := d.index()
	d.byRole.Store(&byRole)
	d.knownOnce.Do(func() { close(d.known) })
}

func (d *Directory) index() map[string][]gateway.Node {
	byRole := map[string][]gateway.Node{}
	for _, row := range d.rows {
		for _, role := range row.GetRoles() {
			byRole[role] = append(byRole[role], gateway.Node{ID: row.GetId(), Address: row.GetAddress()})
		}
	}
	for _, nodes := range byRole {
		rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		if i := slices.IndexFunc(nodes, func(n gateway.Node) bool { return n.ID == d.self }); i > 0 {
			nodes[0], nodes[i] = nodes[i], nodes[0]
		}
	}
	return byRole
}
