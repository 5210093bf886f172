package rpc

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/storage/internal/check"
	"github.com/sluiceio/sluice/services/storage/internal/node"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// Append implements StorageService.
func (s *Service) Append(ctx context.Context, request *storagev1.AppendRequest) (*storagev1.AppendResponse, error) {
	appends := request.GetAppends()
	response := &storagev1.AppendResponse{
		Appended: make([]*storagev1.AppendResponse_PartitionAppended, len(appends)),
	}
	// All are queued before any is waited for, so that they are written side by
	// side.
	waiting := make([]*started, len(appends))
	for i, a := range appends {
		waiting[i] = s.begin(ctx, request.GetOrigin(), a)
	}
	for i, w := range waiting {
		response.Appended[i] = w.wait(ctx)
	}
	return response, nil
}

// started is an append to one partition that has been queued or refused.
type started struct {
	appending *node.Appending
	span      trace.Span
	tracer    trace.Tracer
	err       error
	// appendTime is the log append time that was written, -1 where clients set
	// the timestamps.
	appendTime int64
}

func (s *Service) begin(ctx context.Context, origin storagev1.Origin, a *storagev1.AppendRequest_PartitionAppend) *started {
	ctx, span := s.options.Tracer.Start(ctx, "partition.append")
	w := &started{span: span, tracer: s.options.Tracer, appendTime: -1}
	p, err := s.partition(a.GetPartition())
	if err != nil {
		w.err = err
		return w
	}
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("sluice.topic", p.TopicName()),
			attribute.Int("sluice.partition", int(p.Key().Partition)),
			attribute.Int("sluice.bytes", len(a.GetBatches())),
		)
	}
	w.appending, w.err = s.queue(ctx, p, origin, a, w)
	return w
}

func (s *Service) queue(ctx context.Context, p *node.Partition, origin storagev1.Origin, a *storagev1.AppendRequest_PartitionAppend, w *started) (*node.Appending, error) {
	ownerEpoch := replica.NoOwner
	switch origin {
	case storagev1.Origin_ORIGIN_CLIENT:
		if p.Internal() {
			return nil, fmt.Errorf("%w: topic %q is the system's own", errInvalid, p.TopicName())
		}
	case storagev1.Origin_ORIGIN_COORDINATOR:
		if a.OwnerEpoch == nil {
			return nil, fmt.Errorf("%w: an append of a coordinator needs an owner epoch", errInvalid)
		}
		if ownerEpoch = a.GetOwnerEpoch(); ownerEpoch < 0 {
			// replica.NoOwner among them, which no fence would stop.
			return nil, fmt.Errorf("%w: owner epoch %d, expected 0 or more", errInvalid, ownerEpoch)
		}
	default:
		return nil, fmt.Errorf("%w: origin %d, expected client or coordinator", errInvalid, origin)
	}
	if err := p.CheckEpoch(ctx, epochOf(a.CurrentLeaderEpoch)); err != nil {
		return nil, err
	}
	now := s.options.Now()
	checked, err := check.Check(a.GetBatches(), s.rules(p.Config(), origin), now)
	if err != nil {
		return nil, err
	}
	if p.Config().LogAppendTime {
		w.appendTime = now.UnixMilli()
	}
	batches := make([][]byte, len(checked.Batches))
	for i, batch := range checked.Batches {
		batches[i] = batch.Bytes
	}
	by, err := sequencedBy(checked.Batches, a.Guard)
	switch {
	case err != nil:
		return nil, err
	case by == nil:
		return p.Append(ctx, batches, ownerEpoch)
	case origin != storagev1.Origin_ORIGIN_CLIENT:
		return nil, fmt.Errorf("%w: a coordinator's records have no producer", errInvalid)
	}
	return p.AppendSequenced(ctx, batches, by)
}

// rules are the topic's rules for an append.
func (s *Service) rules(config *node.Config, origin storagev1.Origin) check.Rules {
	rules := check.Rules{
		Origin:               origin,
		MaxBatchBytes:        config.MaxMessageBytes,
		MaxInflate:           s.options.MaxInflate,
		Compacted:            config.Compacted,
		Codec:                config.Codec,
		TimestampAfterMaxMs:  config.TimestampAfterMs,
		TimestampBeforeMaxMs: config.TimestampBeforeMs,
	}
	if config.LogAppendTime {
		rules.TimestampType = check.AppendTime
	}
	return rules
}

func (w *started) wait(ctx context.Context) *storagev1.AppendResponse_PartitionAppended {
	defer w.span.End()
	out := &storagev1.AppendResponse_PartitionAppended{LogAppendTimeMs: -1}
	var result replica.Result
	if w.err == nil {
		result, w.err = w.appending.Wait(ctx)
	}
	if w.err != nil {
		w.span.SetStatus(codes.Error, w.err.Error())
		out.Error = partitionError(w.err)
		return out
	}
	w.traceWrite(ctx, result)
	out.BaseOffset = result.BaseOffset
	out.LogStartOffset = result.StartOffset
	out.LogAppendTimeMs = w.appendTime
	if result.Duplicate {
		out.Duplicate, out.LogAppendTimeMs = []bool{true}, result.AppendTime
	}
	return out
}

// traceWrite tells after the fact which write and sync an append was part of.
func (w *started) traceWrite(ctx context.Context, result replica.Result) {
	if !w.span.IsRecording() || result.WriteBegan.IsZero() {
		return
	}
	at := func(t time.Time) trace.SpanEventOption { return trace.WithTimestamp(t) }
	_, write := w.tracer.Start(trace.ContextWithSpan(ctx, w.span), "log.write+fsync", at(result.WriteBegan))
	write.SetAttributes(attribute.Int64("sluice.base_offset", result.BaseOffset))
	write.End(at(result.WriteEnded))
}
