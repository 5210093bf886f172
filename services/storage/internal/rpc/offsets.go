package rpc

import (
	"context"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
)

// ListOffsets implements StorageService.
func (s *Service) ListOffsets(ctx context.Context, request *storagev1.ListOffsetsRequest) (*storagev1.ListOffsetsResponse, error) {
	response := &storagev1.ListOffsetsResponse{}
	for _, query := range request.GetQueries() {
		out := &storagev1.ListOffsetsResponse_PartitionOffset{Offset: -1, Timestamp: -1, LeaderEpoch: -1}
		p, err := s.partition(query.GetPartition())
		if err == nil {
			listed, listErr := p.ListOffsets(ctx, query.GetTimestamp(), epochOf(query.CurrentLeaderEpoch))
			if err = listErr; err == nil {
				out.Offset, out.Timestamp, out.LeaderEpoch = listed.Offset, listed.Timestamp, listed.Epoch
			}
		}
		out.Error = partitionError(err)
		response.Offsets = append(response.Offsets, out)
	}
	return response, nil
}

// EpochEnd implements StorageService.
func (s *Service) EpochEnd(ctx context.Context, request *storagev1.EpochEndRequest) (*storagev1.EpochEndResponse, error) {
	response := &storagev1.EpochEndResponse{}
	for _, asked := range request.GetEpochs() {
		out := &storagev1.EpochEndResponse_PartitionEpochEnd{Epoch: -1, EndOffset: -1}
		p, err := s.partition(asked.GetPartition())
		if err == nil {
			end, endErr := p.EpochEnd(ctx, asked.GetEpoch(), epochOf(asked.CurrentLeaderEpoch))
			if err = endErr; err == nil {
				out.Epoch, out.EndOffset = end.Epoch, end.End
			}
		}
		out.Error = partitionError(err)
		response.Ends = append(response.Ends, out)
	}
	return response, nil
}

// AdvanceStart implements StorageService.
func (s *Service) AdvanceStart(ctx context.Context, request *storagev1.AdvanceStartRequest) (*storagev1.AdvanceStartResponse, error) {
	response := &storagev1.AdvanceStartResponse{}
	for _, asked := range request.GetStarts() {
		out := &storagev1.AdvanceStartResponse_PartitionStarted{LogStartOffset: -1}
		p, err := s.partition(asked.GetPartition())
		if err == nil {
			out.LogStartOffset, err = p.AdvanceStart(ctx, asked.GetOffset())
		}
		out.Error = partitionError(err)
		response.Started = append(response.Started, out)
	}
	return response, nil
}
