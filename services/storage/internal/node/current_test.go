package node

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// trio is the replicas of one partition on three nodes, with a network that a test
// moves on.
type trio struct {
	t  *testing.T
	on [3]*Partition
	// apart is the position of a node that no message reaches or leaves; -1: none.
	apart int
}

func newTrio(t *testing.T) *trio {
	g := &trio{t: t, apart: -1}
	topic := uuid.New()
	for i := range g.on {
		o := options(memfs.New())
		o.ID = fmt.Sprintf("n%d", i+1)
		r := start(t, o)
		// Place refuses several voters as long as there is no transport.
		record := placement(topic, 1, nil, 1)
		record.Partitions[0] = &persistv1.CatalogPartition{
			ReplicaId: uint64(i + 1), VoterIds: []uint64{1, 2, 3}, VoterNodes: []string{"n1", "n2", "n3"},
		}
		require.NoError(t, r.catalog.Put(record))
		_, err := r.adopt(record)
		require.NoError(t, err)
		g.on[i] = r.partition(topic, 0)
	}
	return g
}

func (g *trio) own(i int, do func(*replica.Replica)) {
	require.NoError(g.t, g.on[i].await(true, func(r *replica.Replica) error {
		do(r)
		return r.Run()
	}))
}

// pump carries messages until there are none.
func (g *trio) pump() {
	for quiet := false; !quiet; {
		quiet = true
		for i := range g.on {
			var out []replica.Message
			g.own(i, func(r *replica.Replica) { out = r.Outbox() })
			for _, m := range out {
				to := int(m.Raft.GetTo()) - 1
				if i == g.apart || to == g.apart {
					continue
				}
				quiet = false
				g.own(to, func(r *replica.Replica) { _ = r.Step(m) })
			}
		}
	}
}

func (g *trio) elect(i int) {
	for other := range g.on {
		if other != g.apart {
			g.own(other, func(r *replica.Replica) { _ = r.ForgetLeader() })
		}
	}
	g.own(i, func(r *replica.Replica) { require.NoError(g.t, r.Campaign()) })
	g.pump()
}

// ask calls beside the network that it needs.
func ask[T any](g *trio, call func() (T, error)) (T, error) {
	g.t.Helper()
	var (
		got  T
		err  error
		done = make(chan struct{})
	)
	go func() {
		defer close(done)
		got, err = call()
	}()
	for {
		select {
		case <-done:
			return got, err
		default:
			g.pump()
		}
	}
}

func (g *trio) append(i int, value string) {
	_, err := ask(g, func() (replica.Result, error) { return appendTo(g.on[i], batchOf(g.t, value)) })
	require.NoError(g.t, err)
}

func (g *trio) latest(i int) (Listed, error) {
	return ask(g, func() (Listed, error) { return g.on[i].ListOffsets(g.t.Context(), Latest, NoEpoch) })
}

// The latest offset is never that of a leader that was deposed and has not heard of
// it: it asks, and answers when it knows.
func TestLatestOffsetIsCurrent(t *testing.T) {
	g := newTrio(t)
	g.elect(0)
	g.append(0, "a")
	listed, err := g.latest(0)
	require.NoError(t, err)
	require.Equal(t, int64(1), listed.Offset)

	g.apart = 0
	g.elect(1)
	g.append(1, "b")
	listed, err = g.latest(1)
	require.NoError(t, err)
	require.Equal(t, int64(2), listed.Offset)

	stale, err := g.on[0].Fetch(t.Context(), Fetch{Epoch: NoEpoch, LastEpoch: NoEpoch, MaxBytes: 1 << 20})
	require.NoError(t, err, "it takes itself for the leader")
	require.Equal(t, int64(1), stale.View.HighWatermark)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = g.on[0].ListOffsets(ctx, Latest, NoEpoch)
	require.ErrorIs(t, err, context.Canceled, "nobody answers it")

	answer := make(chan error, 1)
	go func() {
		_, err := g.on[0].ListOffsets(t.Context(), Latest, NoEpoch)
		answer <- err
	}()
	g.pump()
	g.apart = -1
	for range 2 { // a heartbeat
		g.own(1, func(r *replica.Replica) { require.NoError(t, r.Tick()) })
	}
	var notLeader *NotLeaderError
	_, err = ask(g, func() (struct{}, error) { return struct{}{}, <-answer })
	require.ErrorAs(t, err, &notLeader)
}

// A sole replica answers at once, whatever its owner is at.
func TestLatestOffsetOfASoleReplicaCostsNothing(t *testing.T) {
	r := start(t, options(memfs.New()))
	topic := uuid.New()
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
	p := r.partition(topic, 0)
	_, err := appendTo(p, batchOf(t, "x"))
	require.NoError(t, err)
	release := occupy(p)
	defer release()
	listed, err := p.ListOffsets(t.Context(), Latest, NoEpoch)
	require.NoError(t, err)
	require.Equal(t, int64(1), listed.Offset)
}
