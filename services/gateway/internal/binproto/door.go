package binproto

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/sluiceio/sluice/services/gateway/internal/backend"
	"github.com/sluiceio/sluice/services/gateway/internal/budget"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// Backend is what the door translates to. All methods may be called at once.
type Backend interface {
	// Authenticate resolves a secret, which is empty when none came. It is asked
	// at every frame, so it is quick, and it knows of a revocation at once.
	Authenticate(ctx context.Context, secret string) (grants.Caller, error)
	// ProduceAll writes requests of one caller to one topic, in their order. It
	// keeps no bytes of them.
	ProduceAll(ctx context.Context, caller grants.Caller, topic string, requests []backend.WriteRequest) []backend.WriteResult
	// Consume reads a partition. The records are not changed after it.
	Consume(ctx context.Context, caller grants.Caller, r backend.Read) (backend.Fetched, error)
}

// Config bounds what connections may cost.
type Config struct {
	// MaxPayloadBytes is the largest payload of a request, compressed or not.
	MaxPayloadBytes int
	// MaxRecords is how many records one request may write.
	MaxRecords int
	// MaxFetchRecords is how many records one answer has.
	MaxFetchRecords int
	// MaxFetchBytes is how many bytes of keys and values one answer has, but for
	// a first record that is larger.
	MaxFetchBytes int
	// BudgetBytes is how many bytes there are of each budget: what takes more has to
	// wait until it is alone.
	BudgetBytes int64
	// ConnectionBytes is how many bytes of requests that wait to be written, and
	// as many of answers to reads that wait to be taken, one connection may have
	// beside a last one.
	ConnectionBytes int64
	// ConnectionsPerAddress is how many connections one address may have; 0 is
	// without limit.
	ConnectionsPerAddress int
	// IdleTimeout ends a connection on which nothing happens.
	IdleTimeout time.Duration
	// WriteTimeout ends a connection whose client does not read answers: how
	// long it may take for each MiB.
	WriteTimeout time.Duration
	// FrameTimeout is how long one frame may take to arrive.
	FrameTimeout time.Duration
	// StallTimeout is how long the next 64 KiB of a frame may take.
	StallTimeout time.Duration
	// StallGrace is how long a client may stop in the middle of a frame, or take for
	// 128 KiB of an answer, while others wait for the memory that it holds.
	StallGrace time.Duration
	// HandshakeTimeout is how long a handshake may take, that of TLS included.
	HandshakeTimeout time.Duration
	// BudgetTimeout is how long a request waits for others to leave room.
	BudgetTimeout time.Duration
	// Grace is how long requests under way may take to end at a stop.
	Grace time.Duration
}

// Deps are what the door stands on.
type Deps struct {
	Logger  *slog.Logger
	Backend Backend
	// Requests is the budget for bytes of requests, which other doors may share.
	Requests *semaphore.Weighted
	// Answers is the budget for bytes of answers that wait to be read.
	Answers *semaphore.Weighted
	// Registerer takes the series of the door; nil shows them to nobody.
	Registerer prometheus.Registerer
	// Tracer makes a span of each read, and of produces that are written together;
	// nil makes none.
	Tracer trace.Tracer
	// TLS is spoken with clients unless it is nil.
	TLS *tls.Config
}

// Door serves the binary protocol.
type Door struct {
	cfg       Config
	logger    *slog.Logger
	backend   Backend
	requests  *budget.Budget
	answers   *budget.Budget
	tls       *tls.Config
	addresses *addresses
	metrics   *metrics
	// Nil makes no spans.
	tracer trace.Tracer

	mu struct {
		sync.Mutex
		open map[*conn]struct{}
	}
	// Every goroutine of a connection.
	running sync.WaitGroup
}

// New returns a door. It starts nothing.
func New(cfg Config, deps Deps) *Door {
	d := &Door{
		cfg:       cfg,
		logger:    deps.Logger,
		backend:   deps.Backend,
		tls:       deps.TLS,
		addresses: newAddresses(cfg.ConnectionsPerAddress),
		tracer:    deps.Tracer,
	}
	requests, answers := d.budgetOf(deps.Requests), d.budgetOf(deps.Answers)
	requests.Relieve = func() {
		d.hangUpOn(func(c *conn) time.Duration { return c.receiving.Lasting() })
	}
	answers.Relieve = func() {
		d.hangUpOn(func(c *conn) time.Duration {
			if !c.unsent.holds() {
				return 0
			}
			return c.sending.Lasting()
		})
	}
	d.requests, d.answers = budget.New(requests), budget.New(answers)
	d.mu.open = make(map[*conn]struct{})
	d.metrics = newMetrics(d, deps.Registerer)
	return d
}

// errBusy is that requests under way take all the memory they may.
var errBusy = errs.New(errs.Unavailable, "OVERLOADED", "too many bytes of requests are under way").WithRetryAfter(time.Second)

func (d *Door) budgetOf(bytes *semaphore.Weighted) budget.Config {
	return budget.Config{Bytes: bytes, Whole: d.cfg.BudgetBytes, Patience: d.cfg.BudgetTimeout, Busy: errBusy}
}

// Serve takes connections until ctx ends. Then it closes the listener, lets
// requests under way end, and returns when no connection is left.
func (d *Door) Serve(ctx context.Context, listener net.Listener) error {
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	closing := context.AfterFunc(ctx, func() { listener.Close() })
	defer closing()

	err := d.accept(ctx, requests, listener)
	listener.Close()
	d.stop()
	ended := confine.Async(func() error {
		d.running.Wait()
		return nil
	})
	grace := time.NewTimer(d.cfg.Grace)
	defer grace.Stop()
	select {
	case <-ended:
		return err
	case <-grace.C:
		d.logger.WarnContext(ctx, "requests did not end in time and were cut off", "grace", d.cfg.Grace)
	}
	cut()
	d.closeAll()
	<-ended
	return err
}

// accept serves connections, whose requests run under another context, until
// ctx ends.
func (d *Door) accept(ctx, requests context.Context, listener net.Listener) error {
	wait := backoff.New(backoff.Policy{Initial: 5 * time.Millisecond, Max: time.Second})
	for {
		accepted, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				accepted.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("serve the binary protocol on %s: %w", listener.Addr(), err)
		case err != nil:
			// Out of files: others may close some.
			d.logger.WarnContext(ctx, "a connection could not be accepted", "error", err)
			if wait.Wait(ctx) != nil {
				return nil
			}
			continue
		}
		wait.Reset()
		d.take(requests, accepted)
	}
}

// take serves a connection, unless its address has enough.
func (d *Door) take(ctx context.Context, accepted net.Conn) {
	address := addressOf(accepted.RemoteAddr())
	if !d.addresses.enter(address) {
		d.logger.DebugContext(ctx, "too many connections of one address", "address", address)
		d.metrics.refused.WithLabelValues(string(refusedCrowd)).Inc()
		accepted.Close()
		return
	}
	c := newConn(ctx, d, accepted, address)
	d.mu.Lock()
	d.mu.open[c] = struct{}{}
	d.mu.Unlock()
	confine.Go(&d.running, d.logger, c.lost, c.begin)
}

// connections counts those that are open.
func (d *Door) connections() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return float64(len(d.mu.open))
}

// forget takes a connection that is closed out of the books.
func (d *Door) forget(c *conn) {
	d.mu.Lock()
	delete(d.mu.open, c)
	d.mu.Unlock()
	d.addresses.leave(c.address)
}

// stop has every connection take no more requests.
func (d *Door) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.mu.open {
		c.stopReading()
	}
}

// hangUpOn closes the connection that has stalled longest, if that is long enough.
func (d *Door) hangUpOn(stalled func(*conn) time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var worst *conn
	longest := d.cfg.StallGrace
	for c := range d.mu.open {
		if lasts := stalled(c); lasts > longest {
			worst, longest = c, lasts
		}
	}
	if worst != nil {
		d.logger.Debug("a client that had stopped was cut off: others wait for memory", "address", worst.address, "stopped_for", longest)
		worst.endsFor(endedForMemory)
		worst.cut()
	}
}

func (d *Door) closeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.mu.open {
		c.cut()
	}
}
