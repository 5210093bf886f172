package rpc

import (
	"context"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
)

// WithinSpace is the StorageService of a node that keeps some of its disk free: it
// refuses what clients append while there is less. Groups commit on, since what is
// there is read on.
func (s *Service) WithinSpace() storagev1.StorageServiceServer { return withinSpace{s} }

type withinSpace struct{ *Service }

// Append implements StorageService.
func (s withinSpace) Append(ctx context.Context, request *storagev1.AppendRequest) (*storagev1.AppendResponse, error) {
	refusal := s.options.Node.RefusesAppends()
	if refusal == nil || request.GetOrigin() == storagev1.Origin_ORIGIN_COORDINATOR {
		return s.Service.Append(ctx, request)
	}
	response := &storagev1.AppendResponse{Appended: make([]*storagev1.AppendResponse_PartitionAppended, len(request.GetAppends()))}
	for i := range response.Appended {
		response.Appended[i] = &storagev1.AppendResponse_PartitionAppended{Error: partitionError(refusal), LogAppendTimeMs: -1}
	}
	return response, nil
}

// Prepare implements StorageService: an append is to follow.
func (s withinSpace) Prepare(ctx context.Context, request *storagev1.PrepareRequest) (*storagev1.PrepareResponse, error) {
	refusal := s.options.Node.RefusesAppends()
	if refusal == nil {
		return s.Service.Prepare(ctx, request)
	}
	response := &storagev1.PrepareResponse{Prepared: make([]*storagev1.PrepareResponse_PartitionPrepared, len(request.GetPartitions()))}
	for i := range response.Prepared {
		response.Prepared[i] = &storagev1.PrepareResponse_PartitionPrepared{Error: partitionError(refusal)}
	}
	return response, nil
}
