package rpc

import (
	"context"

	"google.golang.org/grpc"
)

// Dialer gives connections to nodes. It may be called by several goroutines at
// once, as may the connections.
type Dialer interface {
	// Conn returns a connection to a node by its id and the host:port of its
	// internal gRPC. It does not wait for the node to answer, so it is cheap
	// to call for every request, and the connection must not be kept for
	// longer: the address may move.
	Conn(ctx context.Context, node, address string) (grpc.ClientConnInterface, error)
}

// LocalFirst returns a Dialer that gives local for the node itself and asks
// others for any other node.
func LocalFirst(node string, local grpc.ClientConnInterface, others Dialer) Dialer {
	return localFirst{node, local, others}
}

type localFirst struct {
	node   string
	local  grpc.ClientConnInterface
	others Dialer
}

// Conn returns the connection to a node.
func (d localFirst) Conn(ctx context.Context, node, address string) (grpc.ClientConnInterface, error) {
	if node == d.node {
		return d.local, nil
	}
	return d.others.Conn(ctx, node, address)
}
