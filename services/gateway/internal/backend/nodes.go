package backend

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// Dialer gives connections to nodes; rpc.Dialer of services/kit does.
type Dialer interface {
	// Conn returns a connection to a node by its id and the address of its
	// internal gRPC. It does not wait for the node. It may be called by several
	// goroutines at once.
	Conn(ctx context.Context, node, address string) (grpc.ClientConnInterface, error)
}

// The roles that a Finder is asked for.
const (
	RoleCoordinator = "coordinator"
	RoleRegistry    = "registry"
)

// Node is a process of the cluster.
type Node struct {
	ID string
	// Address of its internal gRPC; empty for the process itself.
	Address string
}

// Finder tells where services are before there is a picture of the cluster.
type Finder interface {
	// Find returns the nodes with a role, the ones to prefer first. It may
	// block for I/O and may be called by several goroutines at once. The caller
	// does not change what it gets.
	Find(ctx context.Context, role string) ([]Node, error)
}

// The reasons with which a coordinator sends callers on to another.
const (
	reasonNotElected = "NOT_COORDINATOR_LEADER"
	reasonNotOwner   = "NOT_COORDINATOR"
)

// A pool finds the node of a role that answers.
type pool struct {
	role   string
	finder Finder
	dialer Dialer
	// How long to look for a node that answers.
	patience time.Duration
	// Where in the list of nodes to begin: at the one that answered last.
	first atomic.Uint32
}

// call makes a call on one node after the other until one takes it. do must pass
// the options on, and may be called again only because the call was not begun.
func (p *pool) call(ctx context.Context, do func(conn grpc.ClientConnInterface, opts ...grpc.CallOption) error) error {
	deadline := time.Now().Add(p.patience)
	wait := backoff.New(backoff.Policy{Initial: 5 * time.Millisecond, Max: 250 * time.Millisecond})
	for {
		err := p.round(ctx, do)
		if err == nil || !sentOn(err) || time.Now().After(deadline) {
			return err
		}
		if wait.Wait(ctx) != nil {
			return err
		}
	}
}

// round tries every node once.
func (p *pool) round(ctx context.Context, do func(conn grpc.ClientConnInterface, opts ...grpc.CallOption) error) error {
	nodes, err := p.finder.Find(ctx, p.role)
	if err != nil {
		return errUnreached.Because(err)
	}
	err = errUnreached.WithMessage("there is no %s just now", p.role)
	first := p.first.Load()
	for i := range nodes {
		at := (int(first) + i) % len(nodes)
		err = reach(ctx, p.dialer, nodes[at], do)
		if err == nil || !sentOn(err) {
			p.first.Store(uint32(at))
			return err
		}
	}
	return err
}

// errUnreached is that a call was never begun.
var errUnreached = errs.New(errs.Unavailable, "NODE_UNREACHABLE", "a node does not answer").With("sent", "no")

// reach makes a call on one node. A call that did not even leave becomes
// errUnreached: it is safe to make it again.
func reach(ctx context.Context, dialer Dialer, node Node, do func(conn grpc.ClientConnInterface, opts ...grpc.CallOption) error) error {
	conn, err := dialer.Conn(ctx, node.ID, node.Address)
	if err != nil {
		return errUnreached.Because(err)
	}
	// gRPC fills this in once the call has a transport.
	var reached peer.Peer
	err = do(conn, grpc.Peer(&reached))
	if err != nil && reached.Addr == nil && errs.KindOf(err) == errs.Unavailable {
		return errUnreached.WithMessage("node %q does not answer", node.ID).Because(err)
	}
	return err
}

// neverSent says that a call failed before it left.
func neverSent(err error) bool {
	e, ok := errs.From(err)
	return ok && e.Metadata("sent") == "no"
}

// sentOn says that a call was not served and that another node may serve it.
func sentOn(err error) bool {
	reason := errs.Reason(err)
	return reason == reasonNotElected || reason == reasonNotOwner || neverSent(err)
}

// watch opens the stream of metadata at one coordinator; each call begins with
// the next.
func (p *pool) watch(ctx context.Context) (coordinatorv1.MetadataService_WatchMetadataClient, error) {
	nodes, err := p.finder.Find(ctx, p.role)
	if err != nil {
		return nil, errUnreached.Because(err)
	}
	if len(nodes) == 0 {
		return nil, errUnreached.WithMessage("there is no %s just now", p.role)
	}
	node := nodes[int(p.first.Load())%len(nodes)]
	p.first.Add(1)
	conn, err := p.dialer.Conn(ctx, node.ID, node.Address)
	if err != nil {
		return nil, errUnreached.Because(err)
	}
	return coordinatorv1.NewMetadataServiceClient(conn).WatchMetadata(ctx, &coordinatorv1.WatchMetadataRequest{})
}
