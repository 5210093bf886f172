package publicapi

import (
	"context"
	"time"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
)

// Log is LogService.
type Log struct {
	logv1.UnimplementedLogServiceServer
	backend *backend.Backend
}

// NewLog returns the handler.
func NewLog(b *backend.Backend) *Log { return &Log{backend: b} }

// Produce appends records.
func (s *Log) Produce(ctx context.Context, req *logv1.ProduceRequest) (*logv1.ProduceResponse, error) {
	records := make([]backend.NewRecord, len(req.GetRecords()))
	for i, r := range req.GetRecords() {
		partition := int32(backend.AnyPartition)
		if r.Partition != nil {
			if partition = r.GetPartition(); partition < 0 {
				return nil, backend.ErrPartition.WithMessage("records[%d].partition must be 0 or more, got %d", i, partition)
			}
		}
		records[i] = backend.NewRecord{
			Key: r.Key, Value: r.GetValue(), Partition: partition,
			Sequence: r.GetSequence(), Sequenced: r.Sequence != nil,
		}
	}
	placed, err := s.backend.Produce(ctx, callerOf(ctx), req.GetTopic(), backend.WriteRequest{Records: records, Producer: req.ProducerId})
	if err != nil {
		return nil, err
	}
	results := make([]logv1.ProduceResult, len(placed))
	resp := &logv1.ProduceResponse{Results: make([]*logv1.ProduceResult, len(placed))}
	for i, p := range placed {
		results[i].Partition, results[i].Offset, results[i].Duplicate = p.Partition, p.Offset, p.Duplicate
		resp.Results[i] = &results[i]
	}
	return resp, nil
}

// Consume reads a partition.
func (s *Log) Consume(ctx context.Context, req *logv1.ConsumeRequest) (*logv1.ConsumeResponse, error) {
	if req.Partition == nil {
		return nil, missing("partition")
	}
	if req.Offset == nil {
		return nil, missing("offset")
	}
	read := readOf(req.GetTopic(), req.GetPartition(), req.MaxRecords, req.MaxBytes, req.GetMaxWaitMs())
	read.Offset = req.GetOffset()
	fetched, err := s.backend.Consume(ctx, callerOf(ctx), read)
	if err != nil {
		return nil, err
	}
	return consumed(read.Partition, fetched), nil
}

func missing(field string) error {
	return backend.ErrInvalidRequest.WithMessage("%s must be given", field)
}

// readOf returns the read that a request asks for, but for its offset.
func readOf(topic string, partition int32, maxRecords, maxBytes *int32, maxWaitMs int32) backend.Read {
	read := backend.Read{
		Topic:      topic,
		Partition:  partition,
		MaxRecords: backend.DefaultFetchRecords,
		MaxBytes:   backend.DefaultFetchBytes,
		Wait:       time.Duration(maxWaitMs) * time.Millisecond,
	}
	if maxRecords != nil {
		read.MaxRecords = int(*maxRecords)
	}
	if maxBytes != nil {
		read.MaxBytes = int(*maxBytes)
	}
	return read
}

func consumed(partition int32, f backend.Fetched) *logv1.ConsumeResponse {
	records := make([]logv1.Record, len(f.Records))
	resp := &logv1.ConsumeResponse{
		Records:       make([]*logv1.Record, len(f.Records)),
		NextOffset:    f.NextOffset,
		HighWatermark: f.HighWatermark,
	}
	for i := range f.Records {
		from, to := &f.Records[i], &records[i]
		to.Partition, to.Offset, to.TimestampMs, to.Key, to.Value = partition, from.Offset, from.TimestampMs, from.Key, from.Value
		resp.Records[i] = to
	}
	return resp
}
