package grpcdoor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/sluiceio/sluice/services/kit/confine"
)

// sweepInterval is how often calls are looked for that have stalled for too long.
const sweepInterval = time.Second

// httpServer returns the server of HTTP/2 under the door.
func (d *Door) httpServer(calls context.Context) *http.Server {
	protocols := new(http.Protocols)
	if d.deps.TLS == nil {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP2(true)
	}
	return &http.Server{
		Handler:           d,
		Protocols:         protocols,
		TLSConfig:         d.deps.TLS,
		ReadHeaderTimeout: d.cfg.HandshakeTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(d.deps.Logger.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return calls },
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          maxStreams,
			MaxReceiveBufferPerStream:     streamWindow,
			MaxReceiveBufferPerConnection: connectionWindow,
			SendPingTimeout:               d.cfg.PingAfter,
			PingTimeout:                   d.cfg.PingTimeout,
			WriteByteTimeout:              d.cfg.StallTimeout,
		},
	}
}

// Serve serves the listener until ctx ends. Then it takes no new calls, ends
// streams, waits for the other calls under way, at most for the grace period, and
// returns when every handler has returned. A door serves once.
func (d *Door) Serve(ctx context.Context, listener net.Listener) error {
	d.streaming = streamingOf(d.server)
	calls, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	server := d.httpServer(calls)
	served := confine.Async(func() error {
		if d.deps.TLS == nil {
			return server.Serve(listener)
		}
		// The certificate is in the server's TLSConfig.
		return server.ServeTLS(listener, "", "")
	})
	err := d.sweepUntil(ctx, served)
	if err == nil {
		d.server.SetReady(false)
		d.stop()
		grace, cancel := context.WithTimeout(calls, d.cfg.Grace)
		defer cancel()
		if server.Shutdown(grace) != nil {
			d.deps.Logger.WarnContext(ctx, "gRPC calls did not end in time and were cut off", "grace", d.cfg.Grace)
			cut()
			_ = server.Close()
		}
		err = <-served
	}
	// Waits for the handlers of calls that were given up.
	cut()
	d.server.Stop()
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve gRPC on %s: %w", listener.Addr(), err)
	}
	return nil
}

// sweepUntil cuts off what stalls until ctx ends, or the server with an error.
func (d *Door) sweepUntil(ctx context.Context, served <-chan error) error {
	ticks := time.NewTicker(sweepInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			d.sweep()
		case err := <-served:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}
