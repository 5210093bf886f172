// Package embedetcd runs an etcd of one member inside the process.
//
// Nobody connects to it: clients call it in process, and the peer listener that
// etcd insists on is a unix socket. Writes are on disk before they are answered.
package embedetcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"

	"github.com/sluiceio/sluice/services/kit/life"
)

const (
	member = "sluice"
	// With one member there is nobody to wait for: it leads 100 ms after it
	// started, at the latest.
	tickMs     = 10
	electionMs = 100
	// One row a topic, and old revisions go after ten minutes: far below it.
	quotaBytes          = 2 << 30
	keepRevisions       = "10m"
	maxSocketPath       = 100
	compactionBatchSize = 1000
)

// Etcd is a running etcd.
type Etcd struct {
	client *clientv3.Client
	server *embed.Etcd
	closer life.Closer
	once   sync.Once
	err    error
}

// Start runs etcd in a folder of its own and returns once it serves.
func Start(ctx context.Context, dir string, logger *slog.Logger) (etcd *Etcd, err error) {
	etcd = &Etcd{}
	defer etcd.closer.CloseOnError(&err)

	cfg := embed.NewConfig()
	cfg.Name = member
	cfg.Dir = dir
	cfg.TickMs, cfg.ElectionMs = tickMs, electionMs
	cfg.PreVote = true
	cfg.QuotaBackendBytes = quotaBytes
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModePeriodic, keepRevisions
	cfg.CompactionBatchLimit = compactionBatchSize
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = nil, nil
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(newCore(logger.Handler())))

	socket := filepath.Join(dir, "peer")
	if len(socket) > maxSocketPath {
		// The system limits the name of a socket to some hundred bytes.
		short, err := os.MkdirTemp("", "sluice-etcd-")
		if err != nil {
			return nil, fmt.Errorf("start etcd: %w", err)
		}
		etcd.closer.Push("etcd's socket", func() error { return os.RemoveAll(short) })
		socket = filepath.Join(short, "peer")
	}
	peer := url.URL{Scheme: "unix", Path: socket}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = member + "=" + peer.String()

	if etcd.server, err = embed.StartEtcd(cfg); err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	etcd.closer.Push("etcd", func() error {
		etcd.server.Close()
		return nil
	})
	select {
	case <-etcd.server.Server.ReadyNotify():
	case err := <-etcd.server.Err():
		return nil, fmt.Errorf("start etcd: %w", err)
	case <-ctx.Done():
		return nil, fmt.Errorf("start etcd: %w", ctx.Err())
	}
	etcd.client = v3client.New(etcd.server.Server)
	etcd.closer.Push("etcd's client", func() error {
		// It reports the end of its own context, which the close itself brings.
		if err := etcd.client.Close(); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	return etcd, nil
}

// Client calls the etcd without a socket.
func (e *Etcd) Client() *clientv3.Client { return e.client }

// Run returns nil when ctx ends, and an error if etcd ends before that.
func (e *Etcd) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-e.server.Err():
		return fmt.Errorf("etcd: %w", err)
	case <-e.server.Server.StopNotify():
		return fmt.Errorf("etcd stopped by itself")
	}
}

// Close stops it, and returns when it has stopped.
func (e *Etcd) Close() error {
	e.once.Do(func() { e.err = e.closer.Close() })
	return e.err
}
