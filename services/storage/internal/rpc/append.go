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
	// Most calls are for one partition: it waits on the stack.
	var one [1]started
	waiting := one[:]
	if len(appends) != 1 {
		waiting = make([]started, len(appends))
	}
	// All are queued before any is waited for, so that they are written side by
	// side.
	for i, a := range appends {
		s.begin(ctx, request.GetOrigin(), a, &waiting[i])
	}
	response := newAppendResponse(len(appends))
	for i := range waiting {
		waiting[i].wait(ctx, s.options.Tracer, response.Appended[i])
	}
	return response, nil
}

// newAppendResponse makes a response with empty answers of n partitions.
func newAppendResponse(n int) *storagev1.AppendResponse {
	if n == 1 {
		all := &struct {
			response storagev1.AppendResponse
			list     [1]*storagev1.AppendResponse_PartitionAppended
			answer   storagev1.AppendResponse_PartitionAppended
		}{}
		all.list[0] = &all.answer
		all.response.Appended = all.list[:]
		return &all.response
	}
	response := &storagev1.AppendResponse{Appended: make([]*storagev1.AppendResponse_PartitionAppended, n)}
	answers := make([]storagev1.AppendResponse_PartitionAppended, n)
	for i := range answers {
		response.Appended[i] = &answers[i]
	}
	return response
}

// started is an append to one partition that has been queued or refused.
type started struct {
	appending *node.Appending
	err       error
	// appendTime is the log append time that was written, -1 where clients set
	// the timestamps.
	appendTime int64
	// span is nil when nothing is traced.
	span trace.Span
}

func (s *Service) begin(ctx context.Context, origin storagev1.Origin, a *storagev1.AppendRequest_PartitionAppend, w *started) {
	w.appendTime = -1
	if s.options.Tracer != nil {
		ctx, w.span = s.options.Tracer.Start(ctx, "partition.append")
	}
	p, err := s.partition(a.GetPartition())
	if err != nil {
		w.err = err
		return
	}
	if w.span != nil && w.span.IsRecording() {
		w.span.SetAttributes(
			attribute.String("sluice.topic", p.TopicName()),
			attribute.Int("sluice.partition", int(p.Key().Partition)),
			attribute.Int("sluice.bytes", len(a.GetBatches())),
		)
	}
	w.appending, w.err = s.queue(ctx, p, origin, a, w)
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
	// There is room for one batch, which most appends have.
	var (
		oneChecked [1]check.Batch
		oneBatch   [1][]byte
	)
	checked, err := check.Check(oneChecked[:0], a.GetBatches(), s.rules(p.Config(), origin), now)
	if err != nil {
		return nil, err
	}
	if p.Config().LogAppendTime {
		w.appendTime = now.UnixMilli()
	}
	batches := oneBatch[:0]
	for i := range checked {
		batches = append(batches, checked[i].Bytes)
	}
	by, err := sequencedBy(checked, a.Guard)
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

// wait fills the partition's empty answer.
func (w *started) wait(ctx context.Context, tracer trace.Tracer, out *storagev1.AppendResponse_PartitionAppended) {
	out.LogAppendTimeMs = -1
	var result replica.Result
	if w.err == nil {
		result, w.err = w.appending.Wait(ctx)
	}
	if w.span != nil {
		w.endSpan(ctx, tracer, result)
	}
	if w.err != nil {
		out.Error = partitionError(w.err)
		return
	}
	out.BaseOffset = result.BaseOffset
	out.LogStartOffset = result.StartOffset
	out.LogAppendTimeMs = w.appendTime
	if result.Duplicate {
		out.Duplicate, out.LogAppendTimeMs = []bool{true}, result.AppendTime
	}
}

// endSpan tells after the fact which write and sync an append was part of.
func (w *started) endSpan(ctx context.Context, tracer trace.Tracer, result replica.Result) {
	defer w.span.End()
	switch {
	case w.err != nil:
		w.span.SetStatus(codes.Error, w.err.Error())
	case w.span.IsRecording() && !result.WriteBegan.IsZero():
		at := func(t time.Time) trace.SpanEventOption { return trace.WithTimestamp(t) }
		_, write := tracer.Start(trace.ContextWithSpan(ctx, w.span), "log.write+fsync", at(result.WriteBegan))
		write.SetAttributes(attribute.Int64("sluice.base_offset", result.BaseOffset))
		write.End(at(result.WriteEnded))
	}
}
