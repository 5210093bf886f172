package backend

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/picture"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// A partitionAppend is what goes to one partition, and what becomes of it.
type partitionAppend struct {
	partitionCall
	batches []byte
	// How many records the batches have.
	records int
	// From Prepare, for the records of a producer.
	guard []byte

	// Nil unless it was written.
	appended *storagev1.AppendResponse_PartitionAppended
}

// appendAll writes each append to the leader of its partition and returns when
// all have ended. Appends for one node go in one call. An append is repeated
// only when its partition said that it was not written, or when the call never
// left.
func (b *Backend) appendAll(ctx context.Context, topic *picture.Topic, appends []*partitionAppend) {
	callAll(ctx, b, topic, appends, b.appendToNode)
}

func (b *Backend) appendToNode(ctx context.Context, seen *picture.Picture, topic *picture.Topic, node string, appends []*partitionAppend) {
	req := &storagev1.AppendRequest{
		Origin:  storagev1.Origin_ORIGIN_CLIENT,
		Appends: make([]*storagev1.AppendRequest_PartitionAppend, len(appends)),
	}
	for i, a := range appends {
		req.Appends[i] = &storagev1.AppendRequest_PartitionAppend{
			Partition: &storagev1.Partition{TopicId: topic.ID[:], Partition: a.partition},
			Batches:   a.batches,
			Guard:     a.guard,
		}
	}
	var resp *storagev1.AppendResponse
	err := b.reachStorage(ctx, seen, node, func(c storagev1.StorageServiceClient, opts ...grpc.CallOption) (err error) {
		resp, err = c.Append(ctx, req, opts...)
		return err
	})
	if err == nil && len(resp.GetAppended()) != len(appends) {
		err = errs.New(errs.Internal, "STORAGE_REFUSED", "node %q answered %d of %d appends", node, len(resp.GetAppended()), len(appends))
	}
	if err != nil && !neverSent(err) {
		// Callers learn that it failed, not why.
		b.logger.WarnContext(ctx, "append failed", "topic", topic.Name, "node", node, "error", err)
	}
	for i, a := range appends {
		about := subject{topic.Name, a.partition}
		a.appended, a.err, a.retry = nil, nil, false
		switch {
		case neverSent(err):
			a.err, a.retry = about.noLeader(), true
		case err != nil && beforeWriting(err):
			a.err = err
		case err != nil:
			a.err = about.unknownOutcome().Because(err)
		case resp.Appended[i].GetError() == nil:
			a.appended = resp.Appended[i]
		default:
			refusal := resp.Appended[i].GetError()
			a.err, a.retry = about.partitionError(refusal), elsewhere(refusal)
			a.route.refused(refusal)
		}
	}
}

// beforeWriting says that a call failed in a way that is decided before anything
// is written: the request itself is at fault.
func beforeWriting(err error) bool {
	switch errs.KindOf(err) {
	case errs.InvalidArgument, errs.Unimplemented, errs.PermissionDenied, errs.Unauthenticated,
		errs.ResourceExhausted, errs.FailedPrecondition, errs.NotFound:
		return true
	default:
		return false
	}
}

// verdict returns nil when all was written, else the error that says most about
// the whole: that the outcome is unknown counts before all others.
func verdict(appends []*partitionAppend) error {
	var worst error
	written := 0
	for _, a := range appends {
		switch {
		case a.err == nil:
			written++
		case worst == nil, errors.Is(a.err, ErrUnknownOutcome) && !errors.Is(worst, ErrUnknownOutcome):
			worst = a.err
		}
	}
	if worst == nil || written == 0 {
		return worst
	}
	e, ok := errs.From(worst)
	if !ok {
		return worst
	}
	return e.WithMessage("%s (the records for %d of %d partitions were written)", e.Message(), written, len(appends))
}

func (b *Backend) reachStorage(ctx context.Context, seen *picture.Picture, node string, do func(c storagev1.StorageServiceClient, opts ...grpc.CallOption) error) error {
	return reach(ctx, b.dialer, Node{ID: node, Address: seen.Address(node)}, func(conn grpc.ClientConnInterface, opts ...grpc.CallOption) error {
		return do(storagev1.NewStorageServiceClient(conn), opts...)
	})
}
