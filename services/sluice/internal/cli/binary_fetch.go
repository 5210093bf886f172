package cli

import (
	"context"
	"errors"
	"time"

	"github.com/sluiceio/sluice/client/binary"
	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

// fetch reads a partition.
type fetch func(ctx context.Context, request *logv1.ConsumeRequest) (*logv1.ConsumeResponse, error)

// fetchOver returns a fetch over gRPC.
func fetchOver(server *remote) fetch {
	return func(ctx context.Context, request *logv1.ConsumeRequest) (*logv1.ConsumeResponse, error) {
		return call(ctx, server, server.log.Consume, request)
	}
}

// binaryPause is how long to wait before a partition that had nothing is asked for
// again, since the binary protocol has no request that waits.
const binaryPause = 100 * time.Millisecond

// fetchBinary returns a fetch over the binary protocol. What fails there is asked
// for again over gRPC: an error of the binary protocol is a text, and does not say
// whether it is worth another try.
func fetchBinary(client *binary.Pipelined, overGRPC fetch) fetch {
	return func(ctx context.Context, request *logv1.ConsumeRequest) (*logv1.ConsumeResponse, error) {
		got, err := client.Consume(ctx, binary.Consume{
			Topic: request.GetTopic(), Partition: request.GetPartition(), Offset: request.GetOffset(),
			MaxRecords: int(request.GetMaxRecords()),
		})
		var refused *binary.HandshakeError
		switch {
		case errors.As(err, &refused), ctx.Err() != nil:
			return nil, err
		case err != nil:
			return overGRPC(ctx, request)
		case len(got.Records) == 0 && request.MaxWaitMs != nil:
			wait(ctx, binaryPause)
		}
		response := &logv1.ConsumeResponse{
			Records: make([]*logv1.Record, len(got.Records)), NextOffset: got.NextOffset, HighWatermark: got.HighWatermark,
		}
		records := make([]logv1.Record, len(got.Records))
		for i, r := range got.Records {
			record := &records[i]
			record.Partition, record.Offset, record.TimestampMs = r.Partition, r.Offset, r.TimestampMs
			record.Key, record.Value = r.Key, r.Value
			response.Records[i] = record
		}
		return response, nil
	}
}
