package rpc

import (
	"context"
	"fmt"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/storage/internal/node"
)

// RunPass implements StorageService.
func (s *Service) RunPass(ctx context.Context, request *storagev1.RunPassRequest) (*storagev1.RunPassResponse, error) {
	pass, ok := map[storagev1.Pass]node.Pass{
		storagev1.Pass_PASS_RETENTION:  node.Retention,
		storagev1.Pass_PASS_COMPACTION: node.Compaction,
	}[request.GetPass()]
	if !ok {
		return nil, errs.New(errs.InvalidArgument, "UNKNOWN_PASS", "there is no pass %d", request.GetPass())
	}
	failures, err := s.options.Node.RunPass(ctx, pass, true)
	if err != nil {
		if ctx.Err() == nil {
			return nil, errs.New(errs.Unavailable, "STOPPING", "run pass: %v", err)
		}
		return nil, fmt.Errorf("run pass: %w", err)
	}
	response := &storagev1.RunPassResponse{}
	for _, f := range failures {
		response.Failures = append(response.Failures, &storagev1.RunPassResponse_PartitionFailure{
			Partition: &storagev1.Partition{TopicId: f.Key.Topic[:], Partition: f.Key.Partition},
			Error:     partitionError(f.Err),
		})
	}
	return response, nil
}
