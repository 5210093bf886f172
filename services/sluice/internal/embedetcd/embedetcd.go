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
	"runtime"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"

	"github.com/sluiceio/sluice/services/kit/life"
	"github.com/sluiceio/sluice/services/sluice/internal/zapslog"
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
	compactionBatchSize = 1000
)

// harmless are complaints that are none for an etcd of one member that is
// reached in process only.
var harmless = []string{
	"Running http and grpc server on single port. This is not recommended for production.",
	"simple token is not cryptographically signed",
	// At the first start, when there is no schema yet.
	"Failed to detect schema version",
	"failed to update storage version",
	// At the stop, of the peer listener.
	"setting up serving from embedded etcd failed.",
}

// peerURL is where etcd listens for the members that never come. Etcd makes the
// socket's name of the URL's host; Linux gives a socket without a name one that
// nobody else has, outside of the file system.
func peerURL() url.URL {
	if runtime.GOOS == "linux" {
		return url.URL{Scheme: "unix", Path: "/" + member}
	}
	return url.URL{Scheme: "http", Host: "127.0.0.1:0"}
}

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
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zapslog.New(logger, harmless...))

	peer := peerURL()
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = member + "=" + peer.String()

	if etcd.server, err = startOn(cfg); err != nil {
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

// startOn starts etcd, which panics when it finds its files damaged.
func startOn(cfg *embed.Config) (server *embed.Etcd, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("the files in %s are damaged, restore them from a backup: %v", cfg.Dir, value)
		}
	}()
	return embed.StartEtcd(cfg)
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
