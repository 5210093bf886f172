package coordinator_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator"
	"github.com/sluiceio/sluice/services/coordinator/internal/storagetest"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// picture is what a gateway makes of WatchMetadata.
type picture struct {
	t        *testing.T
	stream   coordinatorv1.MetadataService_WatchMetadataClient
	revision int64
	topics   map[string]*coordinatorv1.Topic // by id
	leaders  map[string]map[int32]string     // by id
	nodes    map[string]*coordinatorv1.Node
	shards   map[int32]string
	messages int
}

func (p *process) watch() *picture {
	// For all that the test waits for.
	ctx, cancel := context.WithTimeout(p.Context(), 2*time.Minute)
	p.Cleanup(cancel)
	stream, err := p.metadata.WatchMetadata(ctx, &coordinatorv1.WatchMetadataRequest{})
	require.NoError(p, err)
	return &picture{t: p.T, stream: stream}
}

// until receives until a condition holds.
func (p *picture) until(cond func() bool) {
	p.t.Helper()
	for p.messages == 0 || !cond() {
		m, err := p.stream.Recv()
		require.NoError(p.t, err)
		require.Equal(p.t, p.messages == 0, m.Snapshot)
		require.GreaterOrEqual(p.t, m.Revision, p.revision)
		p.messages++
		p.revision = m.Revision
		if m.Snapshot {
			p.topics, p.leaders = map[string]*coordinatorv1.Topic{}, map[string]map[int32]string{}
			p.nodes, p.shards = map[string]*coordinatorv1.Node{}, map[int32]string{}
		}
		for _, id := range m.RemovedTopicIds {
			delete(p.topics, string(id))
			delete(p.leaders, string(id))
		}
		for _, topic := range m.Topics {
			p.topics[string(topic.Id)] = topic
		}
		for _, id := range m.RemovedNodes {
			delete(p.nodes, id)
		}
		for _, n := range m.Nodes {
			p.nodes[n.Id] = n
		}
		for _, l := range m.Leaders {
			if p.leaders[string(l.TopicId)] == nil {
				p.leaders[string(l.TopicId)] = map[int32]string{}
			}
			for i, partition := range l.Partitions {
				p.leaders[string(l.TopicId)][partition] = l.Leaders[i]
			}
		}
		for _, s := range m.Shards {
			p.shards[s.Shard] = s.Node
		}
	}
}

func (p *picture) topic(name string) *coordinatorv1.Topic {
	for _, t := range p.topics {
		if t.Name == name {
			return t
		}
	}
	return nil
}

func TestEveryCoordinatorShowsTheWholePicture(t *testing.T) {
	c := newCluster(t)
	c.start("s", "storage")
	a, b := c.start("a", "coordinator"), c.start("b", "coordinator")
	a.create("before", 2)
	watches := []*picture{a.watch(), b.watch()}
	created := a.create("orders", 3)
	for _, w := range watches {
		w.until(func() bool { return w.revision >= created.Version })
		require.NotNil(t, w.topic("orders"), "who has seen the revision knows the topic")
		require.NotNil(t, w.topic("before"))
		w.until(func() bool {
			owned := len(w.shards) == 4
			for _, node := range w.shards {
				owned = owned && node != ""
			}
			return owned && len(w.leaders[string(created.Id)]) == 3 && len(w.nodes) == 3
		})
		require.Equal(t, "s", w.leaders[string(created.Id)][2])
		require.Equal(t, "s:1", w.nodes["s"].Address)
	}
	c.storage.Lead(storagetest.Key{Topic: [16]byte(created.Id), Partition: 1}, "")
	deleted, err := b.metadata.DeleteTopic(t.Context(), &coordinatorv1.DeleteTopicRequest{Name: "before"})
	require.NoError(t, err)
	b.stop()
	w := watches[0]
	w.until(func() bool { return w.leaders[string(created.Id)][1] == "" && w.revision >= deleted.Revision })
	require.Nil(t, w.topic("before"))
	w.until(func() bool {
		for _, node := range w.shards {
			if node != "a" {
				return false
			}
		}
		return len(w.nodes) == 2
	})
}

func TestATopicOfTenThousandPartitions(t *testing.T) {
	c := newCluster(t)
	p := c.start("a", "coordinator", "storage")
	w := p.watch()
	w.until(func() bool { return w.topic(coordinator.ShardTopic) != nil })
	topic := p.create("large", 10_000)
	require.EqualValues(t, 2, c.count("/sluice/topics/"), "a row a topic, however many partitions")
	w.until(func() bool { return len(w.leaders[string(topic.Id)]) == 10_000 })
	messages := w.messages
	c.storage.Lead(storagetest.Key{Topic: [16]byte(topic.Id), Partition: 77}, "")
	w.until(func() bool { return w.leaders[string(topic.Id)][77] == "" })
	require.Less(t, w.messages, messages+5)
}

func TestALeaderCompletesWhatItsPredecessorBegan(t *testing.T) {
	c := newCluster(t)
	s := c.start("s", "storage")
	// A leader died between the row of one topic and its replicas, and between
	// the deletion of another and the removal of its replicas.
	write := func(key string, row *persistv1.TopicRow) {
		value, err := proto.Marshal(row)
		require.NoError(t, err)
		_, err = c.etcd.Put(t.Context(), key, string(value))
		require.NoError(t, err)
	}
	row := func(n byte, name string, deleting bool) *persistv1.TopicRow {
		return &persistv1.TopicRow{
			Id: append(make([]byte, 15), n), Name: name, Nodes: []string{"s"}, Deleting: deleting,
			Partitions: []*persistv1.TopicRow_PartitionRow{{Nodes: []uint32{0}, ReplicaIds: []uint64{1}, NextReplicaId: 2}},
		}
	}
	write("/sluice/topics/begun", row(1, "begun", false))
	write("/sluice/deleting/00000000000000000000000000000002", row(2, "ended", true))

	c.start("a", "coordinator")
	eventually(t, func() bool { return s.storage.Topics()["begun"] != nil && c.count("/sluice/deleting/") == 0 })
	require.Contains(t, s.storage.Removed(), [16]byte{15: 2})
	require.EqualValues(t, 1, s.storage.Topics()["begun"].Partitions[0].Voters[0].ReplicaId)
}

func TestALostLeaseCostsNoCommit(t *testing.T) {
	c := newCluster(t)
	// That is how soon the loss is noticed.
	c.ttl = 2 * time.Second
	c.start("s", "storage")
	a, b := c.start("a", "coordinator"), c.start("b", "coordinator")
	topic := a.create("orders", 1)
	commit := func(offset int64) {
		retry(t, func() error {
			err := a.commit("g", &coordinatorv1.CommittedOffset{TopicId: topic.Id, Offset: offset})
			if errs.Reason(err) == "NOT_COORDINATOR" {
				err = b.commit("g", &coordinatorv1.CommittedOffset{TopicId: topic.Id, Offset: offset})
			}
			return err
		})
	}
	fetch := func() (offset int64) {
		retry(t, func() error {
			got, err := a.fetch("g")
			if errs.Reason(err) == "NOT_COORDINATOR" {
				got, err = b.fetch("g")
			}
			if err == nil {
				require.Len(t, got, 1)
				offset = got[0].Offset
			}
			return err
		})
		return offset
	}
	for round := range int64(6) {
		commit(round)
		p := []*process{a, b}[round%2]
		grant, err := p.session.Current(t.Context())
		require.NoError(t, err)
		_, err = c.etcd.Revoke(t.Context(), grant.ID)
		if err != nil {
			require.ErrorContains(t, err, "lease not found", "the machine stood still, and it is lost already")
		}
		require.Equal(t, round, fetch())
		<-grant.Lost()
	}
	// And changes go on.
	a.create("later", 1)
}

func TestALeaderThatWasDeposedStandsAgain(t *testing.T) {
	c := newCluster(t)
	p := c.start("a", "coordinator", "storage")
	p.create("orders", 1)
	_, err := c.etcd.Delete(t.Context(), "/sluice/leader/", clientv3.WithPrefix())
	require.NoError(t, err)
	p.create("later", 1)
	_, err = p.metadata.DeleteTopic(t.Context(), &coordinatorv1.DeleteTopicRequest{Name: "orders"})
	require.NoError(t, err)
}
