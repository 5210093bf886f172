package backend

import (
	"cmp"
	"context"
	"slices"

	adminv1 "github.com/sluiceio/sluice/gen/go/sluice/admin/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/gateway/internal/picture"
	"github.com/sluiceio/sluice/services/kit/confine"
)

// Raft returns every replica of every partition as its node sees it, those of
// internal topics too, sorted by topic, partition and node.
//
// Who asks this often does so because a node is gone, so one that does not
// answer is logged and its replicas are left out; only when no node answers does
// the call fail. A replica whose topic is not in the picture is just coming or
// going, and is left out too.
func (b *Backend) Raft(ctx context.Context, caller grants.Caller) ([]*adminv1.RaftPartition, error) {
	if err := caller.Admin(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	seen := b.watcher.Current()
	nodes := seen.WithRole(RoleStorage)
	described := make([]*storagev1.DescribeResponse, len(nodes))
	failed := make([]error, len(nodes))
	var calls confine.Fan
	for i, node := range nodes {
		calls.Do(func() {
			if described[i], failed[i] = b.describe(ctx, seen, node, &storagev1.DescribeRequest{}); failed[i] != nil {
				b.logger.WarnContext(ctx, "no partitions for the state of Raft", "node", node, "error", failed[i])
			}
		})
	}
	calls.Wait()
	if len(nodes) > 0 && !slices.Contains(failed, nil) {
		return nil, failed[0]
	}

	var partitions []*adminv1.RaftPartition
	for i, node := range nodes {
		for _, d := range described[i].GetDescriptions() {
			id := d.GetPartition().GetTopicId()
			if len(id) != len(picture.TopicID{}) {
				continue
			}
			if topic := seen.TopicByID(picture.TopicID(id)); topic != nil {
				partitions = append(partitions, raftPartition(topic.Name, node, d))
			}
		}
	}
	slices.SortFunc(partitions, func(a, b *adminv1.RaftPartition) int {
		return cmp.Or(cmp.Compare(a.GetTopic(), b.GetTopic()), cmp.Compare(a.GetPartition(), b.GetPartition()), cmp.Compare(a.GetNode(), b.GetNode()))
	})
	return partitions, nil
}

func raftPartition(topic, node string, d *storagev1.DescribeResponse_PartitionDescription) *adminv1.RaftPartition {
	p := &adminv1.RaftPartition{
		Topic:       topic,
		Partition:   d.GetPartition().GetPartition(),
		Node:        node,
		Role:        d.GetRole(),
		Term:        d.GetTerm(),
		Leader:      d.GetLeader().GetNode(),
		CommitIndex: d.GetCommitIndex(),
		LastIndex:   d.GetLastIndex(),
		Error:       conditionOf(d).Reason,
	}
	for _, r := range d.GetReplicas() {
		p.Replicas = append(p.Replicas, &adminv1.RaftReplica{
			Node: r.GetNode(), Role: r.GetRole(), MatchIndex: r.GetMatchIndex(), NextIndex: r.GetNextIndex(), State: r.GetState(),
		})
	}
	return p
}
