package backend

import (
	"context"
	"time"

	"google.golang.org/grpc"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// ErrResetIncomplete: some groups may be reset, not all of them are.
var ErrResetIncomplete = errs.New(errs.Unavailable, "RESET_INCOMPLETE", "not all groups could be reset, try again")

// ResetOffsets moves every group on a topic back to the first offset of each
// partition. Groups are spread over the coordinators' shards: it asks all
// coordinators until each shard has been seen to. groups are those that have
// committed on the topic, entries their offsets there.
func (b *Backend) ResetOffsets(ctx context.Context, caller grants.Caller, name string) (groups, entries int64, err error) {
	if err := caller.Admin(); err != nil {
		return 0, 0, err
	}
	topic, err := b.topic(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	partitions := b.describePartitions(ctx, topic)
	req := &coordinatorv1.ResetOffsetsRequest{TopicId: topic.ID[:], Offsets: make([]int64, len(partitions))}
	for i, p := range partitions {
		// A partition that tells nothing has a first offset all the same, and it
		// need not be 0.
		switch about := (subject{topic.Name, int32(i)}); {
		case p.description == nil:
			return 0, 0, about.noLeader()
		case p.description.GetError() != nil:
			return 0, 0, about.partitionError(p.description.GetError())
		}
		req.Offsets[i] = p.description.GetLogStartOffset()
	}

	deadline := time.Now().Add(b.limits.Patience)
	wait := backoff.New(backoff.Policy{Initial: 5 * time.Millisecond, Max: 250 * time.Millisecond})
	for {
		nodes, err := b.coordinators.finder.Find(ctx, RoleCoordinator)
		if err != nil {
			return 0, 0, errUnreached.Because(err)
		}
		var last error
		for _, node := range nodes {
			var resp *coordinatorv1.ResetOffsetsResponse
			err := reach(ctx, b.dialer, node, func(conn grpc.ClientConnInterface, opts ...grpc.CallOption) (err error) {
				resp, err = coordinatorv1.NewGroupServiceClient(conn).ResetOffsets(ctx, req, opts...)
				return err
			})
			if err != nil {
				if errs.KindOf(err) != errs.Unavailable {
					return 0, 0, err
				}
				last = err // another may own its shards by now
				continue
			}
			groups += resp.GetGroupsAffected()
			entries += resp.GetEntriesReset()
			req.ExceptShards = append(req.ExceptShards, resp.GetShards()...)
			if n := int(resp.GetShardCount()); n > 0 && len(req.ExceptShards) >= n {
				return groups, entries, nil
			}
		}
		if time.Now().After(deadline) || wait.Wait(ctx) != nil {
			return 0, 0, ErrResetIncomplete.Because(last)
		}
	}
}
