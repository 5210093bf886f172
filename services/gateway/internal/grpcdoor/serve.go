package grpcdoor

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/kit/rpc"
)

// sweepInterval is how often calls are looked for that have stalled for too long.
const sweepInterval = time.Second

// Transport is how the server of Bound has to speak with its clients.
func (d *Door) Transport() []grpc.ServerOption {
	under := insecure.NewCredentials()
	if d.deps.TLS != nil {
		under = credentials.NewTLS(d.deps.TLS)
	}
	options := []grpc.ServerOption{
		grpc.Creds(bounds{under, d}),
		grpc.InTapHandle(d.tap),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.ChainStreamInterceptor(d.interceptStream),
		grpc.MaxRecvMsgSize(d.cfg.MaxMessageBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connectionWindow),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		// A conn buffers itself, and has to see each frame when its turn has come.
		grpc.ReadBufferSize(0),
		grpc.ConnectionTimeout(d.cfg.HandshakeTimeout),
	}
	if d.cfg.PingAfter > 0 {
		options = append(options, grpc.KeepaliveParams(keepalive.ServerParameters{Time: d.cfg.PingAfter, Timeout: d.cfg.PingTimeout}))
	}
	return options
}

// bounds are credentials that put a conn between a client and grpc-go.
type bounds struct {
	credentials.TransportCredentials
	door *Door
}

// connInfo tells a call's connection.
type connInfo struct {
	credentials.AuthInfo
	conn *conn
}

// ServerHandshake takes off TLS, where there is some.
func (b bounds) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c := newConn(b.door, raw)
	if !b.door.remember(c) {
		return nil, nil, errStopping
	}
	plain, info, err := b.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		b.door.forget(c)
		return nil, nil, err
	}
	c.Conn = plain
	return c, connInfo{info, c}, nil
}

// Clone returns another of the same door.
func (b bounds) Clone() credentials.TransportCredentials {
	return bounds{b.TransportCredentials.Clone(), b.door}
}

// remember enters a connection in the books. It is false when the door is stopping.
func (d *Door) remember(c *conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.stopping {
		return false
	}
	d.mu.conns[c] = struct{}{}
	return true
}

// forget takes a connection out of the books.
func (d *Door) forget(c *conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.conns, c)
}

// connections returns those that are open.
func (d *Door) connections() []*conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	conns := make([]*conn, 0, len(d.mu.conns))
	for c := range d.mu.conns {
		if c.greeted.Load() {
			conns = append(conns, c)
		}
	}
	return conns
}

// Serve serves the listener until ctx ends. Then it takes no new calls, ends
// streams, waits for the other calls under way, at most for the grace period, and
// returns when every handler has returned. A door serves once.
func (d *Door) Serve(ctx context.Context, listener net.Listener) error {
	d.streaming = streamingOf(d.server)
	served := confine.Async(func() error { return d.server.Serve(ctx, listener) })
	ticks := time.NewTicker(sweepInterval)
	defer ticks.Stop()
	stopping := ctx.Done()
	for {
		select {
		case <-ticks.C:
			d.sweep()
		case <-stopping:
			stopping = nil
			d.hangUpStrangers()
		case err := <-served:
			d.reading.Wait()
			return err
		}
	}
}

// hangUpStrangers closes the connections that have not become ones of HTTP/2, for
// which grpc-go would wait.
func (d *Door) hangUpStrangers() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.stopping = true
	for c := range d.mu.conns {
		if !c.greeted.Load() {
			_ = c.raw.Close()
		}
	}
}

// streamingOf returns the methods whose calls are streams.
func streamingOf(server *rpc.Server) map[string]bool {
	streaming := make(map[string]bool)
	for service, info := range server.GetServiceInfo() {
		for _, m := range info.Methods {
			if m.IsClientStream || m.IsServerStream {
				streaming["/"+service+"/"+m.Name] = true
			}
		}
	}
	return streaming
}
