package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/peer"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/storagetest"
	"github.com/sluiceio/sluice/services/coordinator/internal/view"
	"github.com/sluiceio/sluice/services/kit/lease/etcdtest"
	"github.com/sluiceio/sluice/services/kit/rpc"
)

// sum is the model of one name: what is added is added once, to all that was
// added before. Adding reads the state and writes a record of the result, so a
// record that lands where it does not belong takes others' additions back. An
// addition whose outcome nobody knows is one that never returned.
var sum = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, output any) (bool, any) {
		in, before := input.(operation), state.(int64)
		after := before + in.add
		return output == nil || output.(int64) == after, after
	},
	Equal: func(a, b any) bool { return a.(int64) == b.(int64) },
	DescribeOperation: func(input, output any) string {
		in := input.(operation)
		return fmt.Sprintf("add %d by owner %d: %v", in.add, in.owner, output)
	},
}

// operation is a read when it adds 0.
type operation struct {
	owner int
	add   int64
}

// storageNodes are two storage nodes behind a picture of the cluster.
type storageNodes struct {
	cluster *storagetest.Cluster
	view    *view.View
	topic   rows.TopicID
	conns   map[string]*rpc.Local
}

func (s *storageNodes) Conn(_ context.Context, node, _ string) (grpc.ClientConnInterface, error) {
	return s.conns[node], nil
}

const shardTopic = "__shards"

func startStorage(t *testing.T, etcd *clientv3.Client, log *slog.Logger) *storageNodes {
	s := &storageNodes{cluster: storagetest.NewCluster(), view: view.New(etcd, log), topic: rows.TopicID{1}, conns: map[string]*rpc.Local{}}
	put := func(key string, row proto.Message) {
		value, err := proto.Marshal(row)
		require.NoError(t, err)
		_, err = etcd.Put(t.Context(), key, string(value))
		require.NoError(t, err)
	}
	nodes, parts := rows.Partitions([][]string{{"s1", "s2"}})
	put(rows.TopicKey(shardTopic), &persistv1.TopicRow{Id: s.topic[:], Name: shardTopic, Nodes: nodes, Partitions: parts, Internal: true})
	for i, id := range nodes {
		put(rows.NodeKey(id), &persistv1.NodeRow{Id: id, Roles: []string{view.RoleStorage}})
		node := s.cluster.Node(id)
		s.conns[id] = rpc.NewLocal(rpc.Options{Logger: log})
		node.Register(s.conns[id])
		_, err := node.PlaceReplicas(t.Context(), &storagev1.PlaceReplicasRequest{
			Topics: []*storagev1.PlaceReplicasRequest_TopicPlacement{{
				TopicId: s.topic[:],
				Name:    shardTopic,
				Partitions: []*storagev1.PlaceReplicasRequest_PartitionPlacement{{
					ReplicaId: uint64(i) + 1,
					Voters:    []*storagev1.PlaceReplicasRequest_Voter{{ReplicaId: 1, Node: "s1"}, {ReplicaId: 2, Node: "s2"}},
				}},
			}},
		})
		require.NoError(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.view.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	require.NoError(t, s.view.Sync(t.Context()))
	return s
}

// TestHistoriesOfChangingOwners has clients write and read through owners that
// come and go, some of them without noticing, over a log whose leader moves and
// whose appends are refused, lost, answered by nobody, or late; and checks that
// every history is one of a single number: nothing that was acknowledged is
// lost, nothing that was refused appears, and no stale owner answers.
//
// In every other history stale owners go on believing in their leases, as with
// clocks that run apart. Their reads may then be old and are left out; their
// writes must still come to nothing.
func TestHistoriesOfChangingOwners(t *testing.T) {
	seeds := 12
	if testing.Short() {
		seeds = 5
	}
	etcd := etcdtest.Start(t)
	for seed := range uint64(seeds) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { runHistory(t, etcd, seed, seed%2 == 1) })
	}
}

func runHistory(t *testing.T, etcd *clientv3.Client, seed uint64, leasesLie bool) {
	log := slog.New(slog.DiscardHandler)
	storage := startStorage(t, etcd, log)
	random := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

	var faultsMu sync.Mutex
	faults := random(1)
	storage.cluster.OnAppend(func(storagetest.Key, int64) storagetest.Fault {
		faultsMu.Lock()
		defer faultsMu.Unlock()
		if faults.IntN(4) > 0 {
			return storagetest.None
		}
		return []storagetest.Fault{
			storagetest.Refuse, storagetest.LoseAnswer, storagetest.LoseRequest,
			storagetest.Late, storagetest.Late, storagetest.Late,
		}[faults.IntN(6)]
	})

	cfg := testConfig
	cfg.AppendTimeout, cfg.LoadTimeout = 50*time.Millisecond, 50*time.Millisecond
	owners := make([]*Runtime[registers], 3)
	for i := range owners {
		owners[i] = newRuntime(t, cfg, NewStorageLog(storage.view, peer.New(storage.view, storage), shardTopic), 1)
	}

	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		ended = make(chan struct{})
		chaos sync.WaitGroup
		// rightful is the owner by its lease, and its epoch.
		rightful atomic.Int64
	)
	start := time.Now()
	now := func() int64 { return int64(time.Since(start)) }

	// The part of etcd, and of bad luck.
	chaos.Go(func() {
		rng := random(2)
		epoch := int64(0)
		var current *tenure
		var lease *fakeGrant
		owner := -1
		for step := 0; ; step++ {
			select {
			case <-ended:
				return
			case <-time.After(time.Duration(rng.IntN(1000)) * time.Microsecond):
			}
			gone := current == nil || current.ctx.Err() != nil
			switch rng.IntN(10) {
			case 0:
				storage.cluster.Deliver()
			case 1:
				leader := []string{"s1", "s2", "s1", "s2", ""}[rng.IntN(5)]
				storage.cluster.Lead(storagetest.Key{Topic: storage.topic}, leader)
			case 2, 3, 4:
				gone = true
			}
			if !gone {
				continue
			}
			if current != nil {
				// Its lease is over; whether it hears of it or not.
				lease.dead.Store(!leasesLie)
				if rng.IntN(2) == 0 {
					owners[owner].shard(0).disown(current)
				}
			}
			if rng.IntN(2) == 0 {
				// What was late arrives last: the next owner finds it on top.
				storage.cluster.Deliver()
			}
			epoch++
			current, lease = newTenure(0, epoch)
			owner = rng.IntN(len(owners))
			rightful.Store(int64(owner)<<32 | epoch)
			owners[owner].shard(0).own(current)
		}
	})

	const clients, each = 6, 16
	names := []string{"a", "b"}
	histories := make(map[string][]porcupine.Operation)
	for client := range clients {
		wg.Go(func() {
			rng := random(10 + uint64(client))
			for begun := 0; begun < each; {
				owner := rng.IntN(len(owners))
				name := names[rng.IntN(len(names))]
				op := operation{owner: owner, add: max(0, rng.Int64N(2000)-1000)}
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				entry := porcupine.Operation{ClientId: client, Input: op, Call: now()}
				reign := rightful.Load()
				var got int64
				var err error
				if op.add > 0 {
					err = owners[owner].Write(ctx, 0, func(m registers) ([]Record, error) {
						got = m[name] + op.add
						return []Record{set(name, got)}, nil
					})
				} else {
					err = owners[owner].Read(ctx, 0, func(m registers) error {
						got = m[name]
						return nil
					})
				}
				cancel()
				entry.Return = now()
				stale := rightful.Load() != reign || int(reign>>32) != owner
				switch {
				case err == nil && op.add == 0 && leasesLie && stale:
					continue
				case err == nil:
					entry.Output = got
				case op.add > 0 && !notDone(err):
					// It may take effect at any time from now on.
					entry.Return = int64(time.Hour)
				default:
					<-time.After(time.Duration(rng.IntN(500)) * time.Microsecond)
					continue
				}
				begun++
				mu.Lock()
				histories[name] = append(histories[name], entry)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	close(ended)
	chaos.Wait()

	for name, ops := range histories {
		result := porcupine.CheckOperationsTimeout(sum, ops, 2*time.Minute)
		require.Equal(t, porcupine.Ok, result, "history of %s of seed %d", name, seed)
	}
}

// notDone says whether a failed write surely has no effect.
func notDone(err error) bool {
	return errors.Is(err, ErrNotCoordinator) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOverloaded)
}
