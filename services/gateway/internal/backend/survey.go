package backend

import (
	"cmp"
	"context"
	"slices"

	"google.golang.org/grpc"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/grants"
	"github.com/sluiceio/sluice/services/gateway/internal/picture"
	"github.com/sluiceio/sluice/services/kit/confine"
)

// RoleStorage is the role of the nodes that hold partitions.
const RoleStorage = "storage"

// Survey is what the metrics show of the topics that a caller may read and of its
// own groups; an administrator sees all. What a node that does not answer would have
// told is missing.
type Survey struct {
	// Sorted by name.
	Topics []TopicSurvey
	// Sorted by group, topic and partition.
	Groups []GroupSurvey
}

// TopicSurvey is one topic.
type TopicSurvey struct {
	Name    string
	Traffic *TopicTraffic
	// By number of the partition; nil where nothing is known.
	Partitions []*storagev1.DescribeResponse_PartitionDescription
	// Conditions are those of the partitions that are not sound, by number.
	Conditions map[int32]Condition
}

// GroupSurvey is a committed offset.
type GroupSurvey struct {
	Group     string
	Topic     string
	Partition int32
	Committed int64
	// High watermark less committed offset, at least 0; -1 when unknown.
	Lag int64
}

// Survey asks every storage node and every coordinator, one call each.
func (b *Backend) Survey(ctx context.Context, caller grants.Caller) Survey {
	ctx, cancel := context.WithTimeout(ctx, b.limits.Timeout)
	defer cancel()
	p := b.watcher.Current()
	var survey Survey
	at := make(map[picture.TopicID]int)
	for _, t := range p.Topics() {
		if t.Internal || !caller.May(registryv1.Action_ACTION_READ, t.Name) {
			continue
		}
		at[t.ID] = len(survey.Topics)
		survey.Topics = append(survey.Topics, TopicSurvey{
			Name:       t.Name,
			Traffic:    b.traffic.of(t.ID),
			Partitions: make([]*storagev1.DescribeResponse_PartitionDescription, len(t.Partitions)),
		})
	}

	storage := p.WithRole(RoleStorage)
	coordinators, err := b.coordinators.finder.Find(ctx, RoleCoordinator)
	if err != nil {
		b.logger.WarnContext(ctx, "no coordinators for the metrics", "error", err)
	}
	described := make([]*storagev1.DescribeResponse, len(storage))
	listed := make([]*coordinatorv1.ListOffsetsResponse, len(coordinators))
	var calls confine.Fan
	for i, node := range storage {
		calls.Do(func() {
			var err error
			if described[i], err = b.describe(ctx, p, node, &storagev1.DescribeRequest{}); err != nil {
				b.logger.WarnContext(ctx, "no partitions for the metrics", "node", node, "error", err)
			}
		})
	}
	for i, node := range coordinators {
		calls.Do(func() {
			err := reach(ctx, b.dialer, node, func(conn grpc.ClientConnInterface, opts ...grpc.CallOption) (err error) {
				listed[i], err = coordinatorv1.NewOffsetServiceClient(conn).ListOffsets(ctx, &coordinatorv1.ListOffsetsRequest{}, opts...)
				return err
			})
			if err != nil {
				b.logger.WarnContext(ctx, "no groups for the metrics", "node", node.ID, "error", err)
			}
		})
	}
	calls.Wait()

	silent := make(map[string]bool)
	for i, resp := range described {
		silent[storage[i]] = resp == nil
		for _, d := range resp.GetDescriptions() {
			survey.see(at, d)
		}
	}
	survey.miss(p, silent)
	for _, resp := range listed {
		for _, group := range resp.GetGroups() {
			if caller.Admin() != nil && group.GetOwner() != caller.ID() {
				continue
			}
			for _, c := range group.GetOffsets() {
				survey.commit(p, at, group.GetGroup(), c)
			}
		}
	}
	slices.SortFunc(survey.Groups, func(a, b GroupSurvey) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return survey
}

// see takes a replica's description unless the leader's is there: followers are
// behind. A replica that cannot be read knows nothing, not even zeros; what is wrong
// with it counts unless another one tells of the partition.
func (s *Survey) see(at map[picture.TopicID]int, d *storagev1.DescribeResponse_PartitionDescription) {
	if len(d.GetPartition().GetTopicId()) != len(picture.TopicID{}) {
		return
	}
	i, ok := at[picture.TopicID(d.GetPartition().GetTopicId())]
	n := d.GetPartition().GetPartition()
	if !ok || n < 0 || int(n) >= len(s.Topics[i].Partitions) {
		return
	}
	t := &s.Topics[i]
	switch known := t.Partitions[n]; {
	case known != nil && (d.GetError() != nil || known.GetRole() == "leader"):
		return
	case d.GetError() == nil:
		t.Partitions[n] = d
	}
	t.condition(n, conditionOf(d))
}

// miss notes the partitions of which no node has told, since it is silent or gone.
func (s *Survey) miss(p *picture.Picture, silent map[string]bool) {
	for i := range s.Topics {
		t := &s.Topics[i]
		topic := p.Topic(t.Name)
		for n, known := range t.Partitions {
			if _, told := t.Conditions[int32(n)]; known != nil || told {
				continue
			}
			for _, node := range topic.Partitions[n].Replicas {
				if asked, is := silent[node]; asked || !is {
					t.condition(int32(n), unreachable(node))
					break
				}
			}
		}
	}
}

func (t *TopicSurvey) condition(n int32, c Condition) {
	if c.State == Sound {
		delete(t.Conditions, n)
		return
	}
	if t.Conditions == nil {
		t.Conditions = make(map[int32]Condition)
	}
	t.Conditions[n] = c
}

func (s *Survey) commit(p *picture.Picture, at map[picture.TopicID]int, group string, c *coordinatorv1.CommittedOffset) {
	topic := committedTopic(p, c)
	if topic == nil {
		return
	}
	i, ok := at[topic.ID]
	if !ok {
		return
	}
	lag := int64(-1)
	if n := c.GetPartition(); n >= 0 && int(n) < len(s.Topics[i].Partitions) && s.Topics[i].Partitions[n] != nil {
		lag = max(0, s.Topics[i].Partitions[n].GetHighWatermark()-c.GetOffset())
	}
	s.Groups = append(s.Groups, GroupSurvey{
		Group: group, Topic: topic.Name, Partition: c.GetPartition(), Committed: c.GetOffset(), Lag: lag,
	})
}
