package rpc

import (
	"context"
	"sort"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
)

// maxColdSegments bounds one answer of ListColdSegments.
const maxColdSegments = 1000

// ListColdSegments implements StorageService.
func (s *Service) ListColdSegments(ctx context.Context, request *storagev1.ListColdSegmentsRequest) (*storagev1.ListColdSegmentsResponse, error) {
	response := &storagev1.ListColdSegmentsResponse{}
	p, err := s.partition(request.GetPartition())
	if err != nil {
		response.Error = partitionError(err)
		return response, nil
	}
	listing, err := p.ListCold(ctx)
	if err != nil {
		response.Error = partitionError(err)
		return response, nil
	}
	state := listing.View.State.Cold
	response.LogStartOffset, response.LocalStartOffset = listing.View.State.StartOffset, listing.LocalStart
	response.Deleting = int64(len(state.Garbage()))
	most := int(request.GetMaxSegments())
	if most <= 0 || most > maxColdSegments {
		most = maxColdSegments
	}
	segments := state.Segments()
	segments = segments[sort.Search(len(segments), func(i int) bool { return segments[i].Next > request.GetFromOffset() }):]
	if len(segments) > most {
		segments, response.More = segments[:most], true
	}
	for _, x := range segments {
		response.Segments = append(response.Segments, &storagev1.ListColdSegmentsResponse_ColdSegment{
			BaseOffset: x.Base, LastOffset: x.Next - 1, SizeBytes: x.Size, UploadedAtMs: x.UploadedMs,
			MaxTimestampMs: x.MaxTimestamp, Object: listing.Name(x.Object), Crc32C: x.CRC,
		})
	}
	for _, i := range state.Intents() {
		response.Uploads = append(response.Uploads, &storagev1.ListColdSegmentsResponse_ColdUpload{
			BaseOffset: i.Base, LastOffset: i.Next - 1, Object: listing.Name(i.Object), Active: listing.Uploading(i.Object),
		})
	}
	return response, nil
}
