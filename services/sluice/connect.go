package sluice

import (
	"context"
	"fmt"
	"net"

	"github.com/sluiceio/sluice/services/kit/rpc"
	"github.com/sluiceio/sluice/services/sluice/internal/embedetcd"
	"github.com/sluiceio/sluice/services/sluice/internal/stack"
)

// openEtcd starts the node's own etcd, or makes a client of the cluster's.
func (n *Node) openEtcd(ctx context.Context, dir string) error {
	if !n.cfg.clustered() {
		own, err := embedetcd.Start(ctx, dir, n.logger)
		if err != nil {
			return err
		}
		n.closer.Push("etcd", own.Close)
		n.etcd = own.Client()
		n.add(stack.Part{Name: "etcd", Run: own.Run})
		return nil
	}
	client, err := n.cfg.Etcd.client(ctx, n.logger)
	if err != nil {
		return err
	}
	n.closer.Push("etcd's client", client.Close)
	n.etcd = client
	return nil
}

// openConnections makes the ways to the services of this node and of others.
func (n *Node) openConnections() error {
	options := rpc.Options{Logger: n.logger, Tracing: n.tracing}
	n.local = rpc.NewLocal(options)
	internal, err := n.cfg.InternalTLS.load(n.logger)
	if err != nil {
		return err
	}
	if internal.follow != nil {
		n.add(stack.Part{Name: "internal certificate", Run: internal.follow})
	}
	tcp := rpc.NewTCP(rpc.TCPOptions{
		Tracing: n.tracing, MaxMessageBytes: n.cfg.maxInternalMessage(), Credentials: internal.client,
	})
	n.closer.Push("connections", tcp.Close)
	n.dialer = rpc.LocalFirst(n.id, n.local, tcp)
	if !n.cfg.clustered() {
		return nil
	}
	listener, err := net.Listen("tcp", n.cfg.bindInternal())
	if err != nil {
		return fmt.Errorf("--bind-internal: %w", err)
	}
	n.closer.Push("internal listener", func() error {
		// The server has closed it already, unless it never served.
		_ = listener.Close()
		return nil
	})
	n.listener = listener
	n.server = rpc.NewServer(rpc.ServerOptions{
		Options: options, MaxMessageBytes: n.cfg.maxInternalMessage(), Credentials: internal.server,
	})
	return nil
}

// internalAddress is where other nodes reach this one; empty where there are
// none.
func (n *Node) internalAddress() string {
	switch {
	case n.listener == nil:
		return ""
	case n.cfg.AdvertiseInternal != "":
		return n.cfg.AdvertiseInternal
	default:
		return n.listener.Addr().String()
	}
}

// connectionsPart ends calls of the node's own services and of other nodes,
// before what they call stops.
func (n *Node) connectionsPart() stack.Part {
	return stack.Part{Name: "internal calls", Run: func(ctx context.Context) error {
		defer n.local.Stop()
		if n.server == nil {
			<-ctx.Done()
			return nil
		}
		return n.server.Serve(ctx, n.listener)
	}}
}
