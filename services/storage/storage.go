// Package storage is the storage service: the partitions that a node holds.
//
// Its Raft groups, files and reads are in internal packages; see
// docs/architecture.md for how an append goes through them.
package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/kit/openfiles"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/storage/internal/node"
	"github.com/sluiceio/sluice/services/storage/internal/retain"
	"github.com/sluiceio/sluice/services/storage/internal/rpc"
)

// Deps is what a storage service is given.
type Deps struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Tracer may be nil: then nothing is traced.
	Tracer trace.Tracer
	// NodeID is the node's id in the cluster.
	NodeID string
	// FS is the file system; nil is the operating system's.
	FS vfs.FS
	// Space tells about the disk below Config.Dir; nil asks the operating system
	// if FS is nil, and else nobody.
	Space func() (vfs.Space, error)
	// Now is the wall clock; nil is time.Now.
	Now func() time.Time
	// Cold is the cold storage; nil is none.
	Cold blob.Store
}

// Service is a storage node.
type Service struct {
	node  *node.Node
	rpc   *rpc.Service
	ready atomic.Bool
}

// New opens the node's folder and takes it for this process; vfs.ErrLocked when
// another has it. Run must be called, to give it back.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.FS == nil {
		deps.FS = vfs.OS
		if deps.Space == nil {
			deps.Space = func() (vfs.Space, error) { return vfs.DiskSpace(cfg.Dir) }
		}
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if cfg.MaxAwake == 0 {
		cfg.MaxAwake = openfiles.Share(8)
	}
	if cfg.MaxReadHandles == 0 {
		cfg.MaxReadHandles = openfiles.Share(8)
	}
	n, err := node.Open(node.Options{
		FS:     measured(deps.FS, deps.Registerer),
		Dir:    cfg.Dir,
		ID:     deps.NodeID,
		Logger: deps.Logger,
		Now:    deps.Now,
		Defaults: node.Defaults{
			SegmentBytes: cfg.SegmentBytes, MaxMessageBytes: cfg.MaxMessageBytes,
			Local: retain.Limits{Ms: cfg.ColdLocalRetentionMs, Bytes: cfg.ColdLocalRetentionBytes},
		},
		FlushEveryRecords: cfg.FlushEveryRecords,
		Workers:           cfg.Workers,
		MaxAwake:          cfg.MaxAwake,
		MaxReadHandles:    cfg.MaxReadHandles,
		IdleAfter:         cfg.IdleAfter,
		MaxAppendBytes:    cfg.MaxAppendBytes,
		MaxProducers:      cfg.MaxProducers,
		Upkeep: node.Upkeep{
			Intervals: map[node.Pass]time.Duration{
				node.Retention:  cfg.RetentionInterval,
				node.Compaction: cfg.CompactionInterval,
				node.Tiering:    tieringInterval(cfg, deps),
			},
			DeleteGrace:     cfg.DeleteGrace,
			CompactionBytes: cfg.CompactionBytes,
			MaxInflate:      maxInflate(cfg.MaxMessageBytes),
		},
		Cold: node.Cold{
			Store:         measuredBlob(deps.Cold, deps.Registerer),
			Uploads:       cfg.ColdUploads,
			Reads:         cfg.ColdReads,
			ReadTimeout:   cfg.ColdReadTimeout,
			CacheBytes:    cfg.ColdCacheBytes,
			BlockBytes:    coldBlockBytes,
			ReadAhead:     coldReadAhead,
			SweepInterval: cfg.ColdSweepInterval,
		},
		Disk: node.Disk{Space: deps.Space, MinFreeBytes: cfg.MinFreeBytes},
	})
	if err != nil {
		return nil, fmt.Errorf("storage: %w", err)
	}
	registerHealth(n.Failed, deps.Space, deps.Registerer)
	if deps.Cold != nil {
		registerColdTotals(n.ColdTotals, deps.Registerer)
	}
	return &Service{
		node: n,
		rpc: rpc.New(rpc.Options{
			Node:          n,
			Logger:        deps.Logger,
			Tracer:        deps.Tracer,
			Now:           deps.Now,
			MaxFetchWait:  cfg.MaxFetchWait,
			MaxFetchBytes: cfg.MaxFetchBytes,
			MaxInflate:    maxInflate(cfg.MaxMessageBytes),
		}),
	}, nil
}

// A reader of cold storage asks for so many bytes at a time, and for so many blocks
// before it needs them: a request to an object store takes tens of milliseconds,
// whatever it is for.
const (
	coldBlockBytes = 1 << 20
	coldReadAhead  = 4
)

// tieringInterval is zero, which is never, without cold storage.
func tieringInterval(cfg Config, deps Deps) time.Duration {
	if deps.Cold == nil {
		return 0
	}
	return cfg.ColdInterval
}

// maxInflate is what the batches of one append may inflate to: enough for any
// honest batch, and no more than a few times the largest.
func maxInflate(maxMessageBytes int) int {
	return max(recordbatch.DefaultMaxInflate, 4*maxMessageBytes)
}

// Register registers the gRPC services.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	storagev1.RegisterStorageServiceServer(r, s.rpc.WithinSpace())
	storagev1.RegisterReplicaServiceServer(r, s.rpc)
}

// Run serves until the context ends, then stops every partition cleanly.
func (s *Service) Run(ctx context.Context) error {
	s.ready.Store(true)
	defer s.ready.Store(false)
	return s.node.Run(ctx)
}

// Ready is nil while the service serves.
func (s *Service) Ready() error {
	if !s.ready.Load() {
		return errors.New("storage is not running")
	}
	return nil
}
