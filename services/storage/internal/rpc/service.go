package rpc

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/storage/internal/node"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// Options are what the services are made of.
type Options struct {
	Node   *node.Node
	Logger *slog.Logger
	// Tracer is nil when nothing is traced.
	Tracer trace.Tracer
	Now    func() time.Time
	// MaxFetchWait and MaxFetchBytes bound what a fetch may ask for.
	MaxFetchWait  time.Duration
	MaxFetchBytes int
	// MaxInflate bounds what the batches of one append may inflate to.
	MaxInflate int
}

// Service serves StorageService and ReplicaService.
type Service struct {
	storagev1.UnimplementedStorageServiceServer
	storagev1.UnimplementedReplicaServiceServer
	options Options
}

// New makes the services.
func New(options Options) *Service { return &Service{options: options} }

// partition finds a partition by its name on the wire.
func (s *Service) partition(name *storagev1.Partition) (*node.Partition, error) {
	id, err := uuid.FromBytes(name.GetTopicId())
	if err != nil {
		return nil, fmt.Errorf("%w: topic id of %d bytes, expected a UUID of 16", errInvalid, len(name.GetTopicId()))
	}
	return s.options.Node.Partition(replica.Key{Topic: id, Partition: name.GetPartition()})
}

// epochOf reads an optional leader epoch.
func epochOf(asked *int32) int32 {
	if asked == nil || *asked < 0 {
		return node.NoEpoch
	}
	return *asked
}
