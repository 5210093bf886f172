package picture_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/picture"
	"github.com/sluiceio/sluice/services/kit/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// stream plays changes that a test sends.
type stream struct {
	grpc.ClientStream
	ctx     context.Context
	changes <-chan *coordinatorv1.WatchMetadataResponse
}

func (s *stream) Recv() (*coordinatorv1.WatchMetadataResponse, error) {
	select {
	case change, ok := <-s.changes:
		if !ok {
			return nil, io.EOF
		}
		return change, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// follow starts a watcher on streams that the test takes from the channel one
// after the other.
func follow(t *testing.T, streams <-chan chan *coordinatorv1.WatchMetadataResponse) *picture.Watcher {
	w := picture.NewWatcher(func(ctx context.Context) (coordinatorv1.MetadataService_WatchMetadataClient, error) {
		select {
		case changes, ok := <-streams:
			if !ok {
				return nil, errors.New("no coordinator")
			}
			return &stream{ctx: ctx, changes: changes}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return w
}

func id(b byte) []byte { return []byte{15: b} }

func topic(b byte, name string, nodes ...string) *coordinatorv1.Topic {
	t := &coordinatorv1.Topic{Id: id(b), Name: name}
	for _, node := range nodes {
		t.Partitions = append(t.Partitions, &coordinatorv1.Assignment{Nodes: []string{node}, ReplicaIds: []uint64{1}})
	}
	return t
}

func TestPictureFollowsChanges(t *testing.T) {
	streams := make(chan chan *coordinatorv1.WatchMetadataResponse)
	w := follow(t, streams)
	requireOpen(t, w.Complete())
	require.Nil(t, w.Current().Topic("orders"))

	changes := make(chan *coordinatorv1.WatchMetadataResponse)
	streams <- changes
	changes <- &coordinatorv1.WatchMetadataResponse{
		Snapshot: true, Revision: 5,
		Topics: []*coordinatorv1.Topic{topic(1, "orders", "a", "b"), topic(2, "billing", "a")},
		Nodes:  []*coordinatorv1.Node{{Id: "a", Address: "a:1", Roles: []string{"storage", "coordinator"}}, {Id: "b", Address: "b:1", Roles: []string{"storage"}}},
		Leaders: []*coordinatorv1.TopicLeaders{
			{TopicId: id(1), Partitions: []int32{1}, Leaders: []string{"b"}, Epochs: []int32{3}},
		},
	}
	p, err := w.WaitFor(t.Context(), 5)
	require.NoError(t, err)
	<-w.Complete()
	first := p.Topic("orders")
	require.Equal(t, []picture.Partition{{Replicas: []string{"a"}, Epoch: -1}, {Replicas: []string{"b"}, Leader: "b", Epoch: 3}}, first.Partitions)
	require.Equal(t, []string{"a", "b"}, p.WithRole("storage"))
	require.Equal(t, "b:1", p.Address("b"))
	require.Empty(t, p.Address("c"))

	// A change of the config keeps what is known of the leaders; the topic that
	// is gone takes its name along, also when another has it by then.
	changed := topic(1, "orders", "a", "b")
	changed.Config = map[string]string{"cleanup.policy": "compact"}
	changes <- &coordinatorv1.WatchMetadataResponse{
		Revision: 6, Topics: []*coordinatorv1.Topic{changed, topic(3, "billing", "b")}, RemovedTopicIds: [][]byte{id(2)}, RemovedNodes: []string{"a"},
	}
	p, err = w.WaitFor(t.Context(), 6)
	require.NoError(t, err)
	require.Equal(t, "b", p.Topic("orders").Partitions[1].Leader)
	require.Equal(t, "compact", p.Topic("orders").Config["cleanup.policy"])
	require.Equal(t, picture.TopicID(id(3)), p.Topic("billing").ID)
	require.Nil(t, p.TopicByID(picture.TopicID(id(2))))
	require.Equal(t, []string{"b"}, p.WithRole("storage"))
	require.Empty(t, first.Config, "pictures do not change")

	// Leaders come by themselves; what they say of nothing known is passed over.
	changes <- &coordinatorv1.WatchMetadataResponse{
		Revision: 7,
		Leaders: []*coordinatorv1.TopicLeaders{
			{TopicId: id(1), Partitions: []int32{0, 9, -1}, Leaders: []string{"a", "a", "a"}, Epochs: []int32{4, 4, 4}},
			{TopicId: id(9), Partitions: []int32{0}, Leaders: []string{"a"}, Epochs: []int32{4}},
			{TopicId: id(1), Partitions: []int32{1}},
		},
	}
	p, err = w.WaitFor(t.Context(), 7)
	require.NoError(t, err)
	require.Equal(t, "a", p.Topic("orders").Partitions[0].Leader)
	require.Equal(t, "b", p.Topic("orders").Partitions[1].Leader)
	names := []string{}
	for _, topic := range p.Topics() {
		names = append(names, topic.Name)
	}
	require.Equal(t, []string{"billing", "orders"}, names)
}

func TestANewSnapshotReplacesEverything(t *testing.T) {
	streams := make(chan chan *coordinatorv1.WatchMetadataResponse)
	w := follow(t, streams)
	changes := make(chan *coordinatorv1.WatchMetadataResponse)
	streams <- changes
	changes <- &coordinatorv1.WatchMetadataResponse{Snapshot: true, Revision: 5, Topics: []*coordinatorv1.Topic{topic(1, "orders", "a")}}
	p, err := w.WaitFor(t.Context(), 5)
	require.NoError(t, err)
	close(changes)

	// The picture stands while there is nobody to ask.
	require.NotNil(t, w.Current().Topic("orders"))
	changes = make(chan *coordinatorv1.WatchMetadataResponse)
	streams <- changes
	changes <- &coordinatorv1.WatchMetadataResponse{Snapshot: true, Revision: 8, Topics: []*coordinatorv1.Topic{topic(2, "billing", "a")}}
	<-p.Superseded()
	p, err = w.WaitFor(t.Context(), 8)
	require.NoError(t, err)
	require.Nil(t, p.Topic("orders"))
	require.NotNil(t, p.Topic("billing"))
}

func TestAStreamThatBeginsWithoutASnapshotIsGivenUp(t *testing.T) {
	streams := make(chan chan *coordinatorv1.WatchMetadataResponse)
	w := follow(t, streams)
	changes := make(chan *coordinatorv1.WatchMetadataResponse)
	streams <- changes
	changes <- &coordinatorv1.WatchMetadataResponse{Revision: 5}
	changes = make(chan *coordinatorv1.WatchMetadataResponse)
	streams <- changes
	requireOpen(t, w.Complete())
}

func requireOpen(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
		require.Fail(t, "closed")
	default:
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	w := follow(t, make(chan chan *coordinatorv1.WatchMetadataResponse))
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := w.WaitFor(ctx, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A stream that panics is left for another.
func TestAPanicIsTheEndOfAStream(t *testing.T) {
	changes := make(chan *coordinatorv1.WatchMetadataResponse, 1)
	changes <- &coordinatorv1.WatchMetadataResponse{Snapshot: true, Revision: 2, Topics: []*coordinatorv1.Topic{topic(1, "t", "a")}}
	opened := 0
	w := picture.NewWatcher(func(ctx context.Context) (coordinatorv1.MetadataService_WatchMetadataClient, error) {
		if opened++; opened == 1 {
			return nil, nil // has no Recv
		}
		return &stream{ctx: ctx, changes: changes}, nil
	}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	seen, err := w.WaitFor(ctx, 2)
	require.NoError(t, err)
	require.NotNil(t, seen.Topic("t"))
	cancel()
	require.NoError(t, <-ended)
}
