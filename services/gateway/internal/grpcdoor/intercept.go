package grpcdoor

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/backend"
)

const (
	// smallAnswer is how large an answer may be that takes nothing of the budget
	// beside callBytes, and placedRecord about what each record of a produce takes.
	smallAnswer  = 4 << 10
	placedRecord = 16
	// besideRecord is about what a record takes in an answer beside its key and value.
	besideRecord = 100
)

// Intercept stands around the handlers of the server, within what finds out who
// calls. It makes room for an answer: as far as that can be told before anything is
// done, so that who is told that there is none has changed nothing.
func (d *Door) Intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	c := callOf(ctx)
	if c == nil {
		return handler(ctx, req)
	}
	if c.open {
		if m, ok := req.(proto.Message); ok && proto.Size(m) > maxOpenMessage {
			return nil, errTooLarge
		}
		return handler(ctx, req)
	}
	if d.deps.IsSurvey(info.FullMethod) {
		leave, err := d.survey(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	req, most, err := d.prepare(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := c.settle(ctx, most); err != nil {
		return nil, err
	}
	resp, err := handler(ctx, req)
	if err != nil {
		c.answer.Release()
		return nil, err
	}
	if m, ok := resp.(proto.Message); ok {
		if err := c.settle(ctx, int64(proto.Size(m))); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// survey waits for a turn to put a survey together.
func (d *Door) survey(ctx context.Context) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.BudgetTimeout)
	defer cancel()
	if err := d.deps.Surveys.Acquire(ctx, 1); err != nil {
		return nil, errSurveysBusy
	}
	return func() { d.deps.Surveys.Release(1) }, nil
}

// prepare returns what the answer to a request takes at most. A read that may wait
// for its first record does so here, where it holds no room for it, and becomes one
// that does not wait. What is wrong with the read is left for the service to say.
func (d *Door) prepare(ctx context.Context, req any) (_ any, most int64, err error) {
	switch r := req.(type) {
	case *logv1.ConsumeRequest:
		if r.GetMaxWaitMs() > 0 && r.Offset != nil && r.GetOffset() >= 0 && r.Partition != nil && r.GetPartition() >= 0 {
			read := backend.Read{Topic: r.GetTopic(), Partition: r.GetPartition(), Offset: r.GetOffset(), Wait: milliseconds(r.GetMaxWaitMs())}
			if err := d.deps.Backend.Await(ctx, d.deps.CallerOf(ctx), read); err != nil {
				return nil, 0, err
			}
			r = proto.CloneOf(r)
			r.MaxWaitMs = nil
		}
		return r, d.mostOf(r.MaxRecords, r.MaxBytes), nil
	case *logv1.ConsumeGroupRequest:
		if r.GetMaxWaitMs() > 0 && r.GetTopic() != "" && r.Partition != nil && r.GetPartition() >= 0 {
			read := backend.Read{Topic: r.GetTopic(), Partition: r.GetPartition(), Wait: milliseconds(r.GetMaxWaitMs())}
			if err := d.deps.Backend.AwaitGroup(ctx, d.deps.CallerOf(ctx), r.GetGroup(), read); err != nil {
				return nil, 0, err
			}
			r = proto.CloneOf(r)
			r.MaxWaitMs = nil
		}
		return r, d.mostOf(r.MaxRecords, r.MaxBytes), nil
	case *logv1.ProduceRequest:
		return r, placedRecord * int64(len(r.GetRecords())), nil
	}
	return req, 0, nil
}

func milliseconds(n int32) time.Duration { return time.Duration(n) * time.Millisecond }

// mostOf is what a read answers at most, but for a first record that is larger.
func (d *Door) mostOf(records, bytes *int32) int64 {
	most := func(given *int32, absent, limit int) int64 {
		if given != nil {
			absent = int(*given)
		}
		return int64(max(0, min(absent, limit)))
	}
	return most(bytes, backend.DefaultFetchBytes, d.cfg.MaxFetchBytes) +
		most(records, backend.DefaultFetchRecords, d.cfg.MaxFetchRecords)*besideRecord
}

// settle has the answer hold so many bytes, or none when they are part of what each
// call takes. When they are more than it has it gives back all and takes them anew: if
// those who wait kept what they have, two could wait for each other.
func (c *call) settle(ctx context.Context, bytes int64) error {
	if bytes <= smallAnswer {
		bytes = 0
	}
	if bytes > c.answer.Taken() {
		c.answer.Release()
		return c.answer.Grow(ctx, bytes)
	}
	c.answer.Shrink(bytes)
	return nil
}

// interceptStream counts the messages that a stream's handler takes.
func (d *Door) interceptStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if c := callOf(stream.Context()); c != nil {
		stream = countedStream{stream, c}
	}
	return handler(srv, stream)
}

type countedStream struct {
	grpc.ServerStream
	call *call
}

// RecvMsg takes a message.
func (s countedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	s.call.mu.Lock()
	defer s.call.mu.Unlock()
	s.call.mu.taken++
	return nil
}
