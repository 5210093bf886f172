package backend

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// RunPass runs a maintenance pass on every storage node and returns when it is
// done. It takes as long as it takes; who hangs up ends it. A partition on which
// it fails is logged, here and on its node, and fails no other; a node that
// cannot be asked fails the call, after the others are done.
func (b *Backend) RunPass(ctx context.Context, caller grants.Caller, pass storagev1.Pass) error {
	if err := caller.Admin(); err != nil {
		return err
	}
	seen := b.watcher.Current()
	nodes := seen.WithRole(RoleStorage)
	failed := make([]error, len(nodes))
	var calls confine.Fan
	for i, node := range nodes {
		calls.Do(func() {
			failed[i] = b.reachStorage(ctx, seen, node, func(c storagev1.StorageServiceClient, opts ...grpc.CallOption) error {
				resp, err := c.RunPass(ctx, &storagev1.RunPassRequest{Pass: pass}, opts...)
				for _, f := range resp.GetFailures() {
					b.logger.WarnContext(ctx, "a pass failed on a partition", "pass", pass, "node", node,
						"topic_id", fmt.Sprintf("%x", f.GetPartition().GetTopicId()), "partition", f.GetPartition().GetPartition(),
						"error", f.GetError().GetMessage())
				}
				return err
			})
			if errs.KindOf(failed[i]) == errs.Unavailable {
				failed[i] = ErrUnreachable.WithMessage("node %q has not finished", node).Because(failed[i])
			}
		})
	}
	calls.Wait()
	return errors.Join(failed...)
}
