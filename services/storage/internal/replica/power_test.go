package replica_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/kit/invariant"
)

// Records that were acknowledged are there after the power went on one, two or all
// of the machines in the same moment, with every page that was not synced lost.
func TestPowerCutOnOneTwoAndAllMachines(t *testing.T) {
	everything := func(*raftpb.Message) bool { return true }
	seeds := uint64(10)
	if invariant.Enabled {
		seeds = 2
	}
	for machines := 1; machines <= 3; machines++ {
		for seed := range seeds {
			t.Run(fmt.Sprintf("machines=%d,seed=%d", machines, seed), func(t *testing.T) {
				s := newSim(t, seed, 3)
				rng := rand.New(rand.NewPCG(seed, 0x90))
				for range 3 {
					leader := s.nodes[rng.IntN(3)]
					s.campaign(leader)
					s.drain(everything)
					require.True(t, leader.r.View().Serves)
					for range 10 {
						s.propose(leader)
						// Some messages are on their way when it happens.
						for range rng.IntN(12) {
							s.deliver(false)
						}
					}
					for _, i := range rng.Perm(3)[:machines] {
						n := s.nodes[i]
						_ = n.r.Abandon()
						n.fs = n.fs.Crash(nil)
						s.open(n)
					}
					s.wire = nil
					s.settle()
					s.check()
				}
				require.NotEmpty(t, s.acked)
			})
		}
	}
}
