package place_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/services/coordinator/internal/place"
)

// loads counts replicas by node, the loads before included.
func loads(nodes []place.Node, assignments [][]string) map[string]int {
	m := make(map[string]int)
	for _, n := range nodes {
		m[n.ID] = n.Load
	}
	for _, a := range assignments {
		for _, id := range a {
			m[id]++
		}
	}
	return m
}

func spread(m map[string]int) int {
	lo, hi := -1, 0
	for _, n := range m {
		if lo < 0 || n < lo {
			lo = n
		}
		hi = max(hi, n)
	}
	return hi - lo
}

func TestReplicasAreDistinctAndInAsManyRacksAsThereAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) place.Node {
			return place.Node{
				ID:   fmt.Sprintf("n%d", rapid.IntRange(0, 99).Draw(t, "id")),
				Rack: fmt.Sprintf("r%d", rapid.IntRange(0, 3).Draw(t, "rack")),
				Load: rapid.IntRange(0, 50).Draw(t, "load"),
			}
		}), 1, 12, func(n place.Node) string { return n.ID }).Draw(t, "nodes")
		replicas := rapid.IntRange(1, len(nodes)).Draw(t, "replicas")
		partitions := rapid.IntRange(1, 60).Draw(t, "partitions")
		seed := rapid.Uint64().Draw(t, "seed")

		got, err := place.Place(nodes, partitions, replicas, seed)
		require.NoError(t, err)
		require.Len(t, got, partitions)
		rackOf, size := map[string]string{}, map[string]int{}
		for _, n := range nodes {
			rackOf[n.ID] = n.Rack
			size[n.Rack]++
		}
		for _, assigned := range got {
			require.Len(t, assigned, replicas)
			seen, racks := map[string]bool{}, map[string]int{}
			for _, id := range assigned {
				require.Contains(t, rackOf, id)
				require.False(t, seen[id], "%v names a node twice", assigned)
				seen[id] = true
				racks[rackOf[id]]++
			}
			// No rack has two more than another that still had a free node.
			for a, n := range racks {
				for b := range size {
					require.False(t, n > racks[b]+1 && racks[b] < size[b], "%v: rack %s has %d, %s %d", assigned, a, n, b, racks[b])
				}
			}
		}

		shuffled := rapid.Permutation(nodes).Draw(t, "order")
		again, err := place.Place(shuffled, partitions, replicas, seed)
		require.NoError(t, err)
		require.Equal(t, got, again, "the order of the nodes must not matter")
	})
}

func TestLoadsEndWithinOneOfEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		racks := rapid.IntRange(1, 4).Draw(t, "racks")
		each := rapid.IntRange(1, 4).Draw(t, "nodes a rack")
		var nodes []place.Node
		for r := range racks {
			for n := range each {
				nodes = append(nodes, place.Node{ID: fmt.Sprintf("n%d-%d", r, n), Rack: strconv.Itoa(r)})
			}
		}
		replicas := rapid.IntRange(1, len(nodes)).Draw(t, "replicas")
		partitions := rapid.IntRange(1, 200).Draw(t, "partitions")
		got, err := place.Place(nodes, partitions, replicas, rapid.Uint64().Draw(t, "seed"))
		require.NoError(t, err)
		require.LessOrEqual(t, spread(loads(nodes, got)), 1)
	})
}

func TestOneReplicaLevelsUnevenRacks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []place.Node
		for r, n := range rapid.SliceOfN(rapid.IntRange(1, 5), 1, 4).Draw(t, "racks") {
			for i := range n {
				nodes = append(nodes, place.Node{ID: fmt.Sprintf("n%d-%d", r, i), Rack: strconv.Itoa(r)})
			}
		}
		got, err := place.Place(nodes, rapid.IntRange(1, 200).Draw(t, "partitions"), 1, rapid.Uint64().Draw(t, "seed"))
		require.NoError(t, err)
		require.LessOrEqual(t, spread(loads(nodes, got)), 1)
	})
}

func TestLoadedNodesAreSpared(t *testing.T) {
	nodes := []place.Node{{ID: "a", Load: 10}, {ID: "b", Load: 4}, {ID: "c"}}
	got, err := place.Place(nodes, 16, 1, 1)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"a": 10, "b": 10, "c": 10}, loads(nodes, got))
}

func TestLeadersAreSpread(t *testing.T) {
	nodes := []place.Node{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	got, err := place.Place(nodes, 300, 3, 7)
	require.NoError(t, err)
	leads := map[string]int{}
	for _, a := range got {
		leads[a[0]]++
	}
	require.Equal(t, map[string]int{"a": 100, "b": 100, "c": 100}, leads)
}

func TestTooFewNodes(t *testing.T) {
	_, err := place.Place([]place.Node{{ID: "a"}}, 1, 2, 0)
	require.ErrorIs(t, err, place.ErrTooFewNodes)
}
