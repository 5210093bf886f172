package rpc

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/obs"
)

// TCPOptions says how to connect.
type TCPOptions struct {
	// Tracing makes a span of each call; nil is none.
	Tracing *obs.Tracing
	// MaxMessageBytes limits a message in either direction; 0 is
	// DefaultMaxMessageBytes.
	MaxMessageBytes int
	// Credentials authenticate the server; nil is plain TCP.
	Credentials credentials.TransportCredentials
	// DialContext replaces the dialling of TCP; nil is net.Dialer's.
	DialContext func(ctx context.Context, address string) (net.Conn, error)
}

// TCP is a [Dialer] with one connection for each address.
type TCP struct {
	options []grpc.DialOption

	mu struct {
		sync.Mutex
		// conns is nil once closed.
		conns map[string]*tcpConn
	}
}

var _ Dialer = (*TCP)(nil)

// NewTCP returns a dialer without connections.
func NewTCP(o TCPOptions) *TCP {
	limit := messageLimit(o.MaxMessageBytes)
	creds := o.Credentials
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(limit), grpc.MaxCallSendMsgSize(limit)),
		// Nodes talk straight to each other, whatever HTTPS_PROXY says.
		grpc.WithNoProxy(),
		// An append that died on the way may have been written: whoever made
		// it decides whether it is safe to repeat.
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time:                clientPingAfter,
			Timeout:             pingTimeout,
			PermitWithoutStream: true,
		}),
	}
	if o.DialContext != nil {
		options = append(options, grpc.WithContextDialer(o.DialContext))
	}
	if handler := o.Tracing.ClientHandler(); handler != nil {
		options = append(options, grpc.WithStatsHandler(handler))
	}
	t := &TCP{options: options}
	t.mu.conns = make(map[string]*tcpConn)
	return t
}

// Pings find peers that vanished without a word. A server refuses clients that
// ping oftener than serverMinPing.
const (
	clientPingAfter = 15 * time.Second
	serverPingAfter = 30 * time.Second
	serverMinPing   = 5 * time.Second
	pingTimeout     = 10 * time.Second
)

// Conn returns the connection to address, which it makes at the first call.
func (t *TCP) Conn(_ context.Context, node, address string) (grpc.ClientConnInterface, error) {
	if address == "" {
		return nil, errs.New(errs.Unavailable, "NO_ADDRESS", "no address is known for node %q", node)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.conns == nil {
		return nil, errs.New(errs.Unavailable, "STOPPING", "connections are closed")
	}
	if conn, ok := t.mu.conns[address]; ok {
		return conn, nil
	}
	// Makes no I/O. "passthrough" leaves the name to the dialler, so that a
	// name that now has another address is looked up again.
	conn, err := grpc.NewClient("passthrough:///"+address, t.options...)
	if err != nil {
		return nil, fmt.Errorf("connect to node %q at %s: %w", node, address, err)
	}
	t.mu.conns[address] = &tcpConn{conn}
	return t.mu.conns[address], nil
}

// Close closes all connections; calls on them fail.
func (t *TCP) Close() error {
	t.mu.Lock()
	conns := t.mu.conns
	t.mu.conns = nil
	t.mu.Unlock()
	for _, conn := range conns {
		// The only error is that it is closed already.
		_ = conn.conn.Close()
	}
	return nil
}

// tcpConn is a connection whose errors are *errs.Error.
type tcpConn struct {
	conn *grpc.ClientConn
}

// Invoke makes a unary call.
func (c *tcpConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return errs.FromStatus(c.conn.Invoke(ctx, method, args, reply, opts...))
}

// NewStream begins a stream.
func (c *tcpConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := c.conn.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, errs.FromStatus(err)
	}
	return tcpStream{stream}, nil
}

type tcpStream struct {
	grpc.ClientStream
}

// SendMsg sends a message.
func (s tcpStream) SendMsg(m any) error {
	return errs.FromStatus(s.ClientStream.SendMsg(m))
}

// RecvMsg receives a message.
func (s tcpStream) RecvMsg(m any) error {
	return errs.FromStatus(s.ClientStream.RecvMsg(m))
}
