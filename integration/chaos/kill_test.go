package chaos

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
)

const (
	topic       = "t"
	partitions  = 4
	httpWriters = 4
	grpcWriters = 2
	// sequencedWriters go on with what they do not know the outcome of.
	sequencedWriters = 3
	// fullCheck is the number of rounds after which all is read again, and not
	// only what is new.
	fullCheck = 10
	// roundTimeout ends a round that hangs.
	roundTimeout = 2 * time.Minute
)

// siege is a server under writers that is killed again and again.
type siege struct {
	server     *cluster.Process
	random     *rand.Rand
	api        *httpapi.Client
	ledger     *Ledger
	committers []*committer
	sequenced  []*sequencedWriter
}

func newSiege(t *testing.T) *siege {
	s := &siege{server: cluster.NewProcess(t, cluster.Options{}), random: newRandom(t), ledger: NewLedger(partitions)}
	s.api = httpapi.New(s.server.HTTP())
	t.Cleanup(s.api.Close)
	for partition := range partitions {
		s.committers = append(s.committers, newCommitter(s.api, "g", topic, partition))
	}
	for i := range sequencedWriters {
		s.sequenced = append(s.sequenced, newSequencedWriter(httpWriters+grpcWriters+i, s.api, topic, s.ledger, s.random.Uint64()))
	}
	cluster.Start(t, s.server)
	// Small segments, so that kills hit rolls.
	require.NoError(t, s.api.CreateTopic(t.Context(), topic, partitions, map[string]any{"segment_bytes": 64 << 10}))
	return s
}

// assault lets all clients work until the server is killed under them.
func (s *siege) assault(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), roundTimeout)
	defer cancel()
	conn, err := grpc.NewClient(s.server.GRPC(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()

	var clients sync.WaitGroup
	killed := make(chan struct{})
	run := func(name string, client interface{ run(context.Context) error }) {
		clients.Go(func() {
			err := client.run(ctx)
			select {
			case <-killed:
			default:
				t.Errorf("%s ended before the kill: %v", name, err)
			}
		})
	}
	for number := range httpWriters + grpcWriters {
		w := &writer{number: number, topic: topic, ledger: s.ledger, random: rand.New(rand.NewPCG(s.random.Uint64(), 0))}
		if w.producer = (httpProducer{s.api}); number >= httpWriters {
			w.producer = newGRPCProducer(conn)
		}
		run("a writer", w)
	}
	for _, w := range s.sequenced {
		run("a sequenced writer", w)
	}
	for _, c := range s.committers {
		run("a committer", c)
	}
	run("a reader", &tailer{s.api, topic, s.random.IntN(partitions), s.ledger})

	timer := time.NewTimer(between(s.random, time.Millisecond, 700*time.Millisecond))
	defer timer.Stop()
	<-timer.C
	close(killed)
	s.server.Kill()
	clients.Wait()
}

// review reads back what is new, or everything.
func (s *siege) review(t *testing.T, everything bool) {
	ctx, cancel := context.WithTimeout(t.Context(), roundTimeout)
	defer cancel()
	for partition := range partitions {
		from := s.ledger.Checked(partition)
		if everything {
			from = 0
		}
		records, err := s.api.ReadFrom(ctx, topic, partition, from)
		require.NoError(t, err)
		require.NoError(t, s.ledger.Check(partition, from, records))
		require.NoError(t, s.committers[partition].check(ctx))
	}
}

// besiege goes through the rounds. ruin may do something to the files of the
// dead server.
func (s *siege) besiege(t *testing.T, ruin func(t *testing.T)) {
	p := newPace(t)
	for p.next() {
		s.assault(t)
		require.False(t, t.Failed())
		ruin(t)
		cluster.Start(t, s.server)
		s.review(t, p.round%fullCheck == 0)
	}
	retried, known := 0, 0
	for _, w := range s.sequenced {
		require.NoError(t, w.finish(t.Context()))
		retried, known = retried+w.retried, known+w.known
	}
	t.Logf("%d requests of producers were sent again, %d of them had been written", retried, known)
	s.review(t, true)
	require.NoError(t, s.server.Stop())
	cluster.Start(t, s.server)
	s.review(t, true)

	var records, commits int64
	for partition := range partitions {
		records += s.ledger.Checked(partition)
		commits += s.committers[partition].acked + 1
	}
	require.Positive(t, records)
	t.Logf("%d kills: %d records and %d commits are all there", p.round-1, records, commits)
}

func TestKill(t *testing.T) {
	newSiege(t).besiege(t, func(*testing.T) {})
}

// TestKillWithLeftovers has crashes leave torn tails and stray bytes in every
// kind of file.
func TestKillWithLeftovers(t *testing.T) {
	s := newSiege(t)
	order := s.random.Perm(len(leftovers))
	s.besiege(t, func(t *testing.T) {
		for range 4 {
			left := leftovers[order[0]]
			order = append(order[1:], order[0])
			err := left.do(s.random, s.server.DataDir())
			if !errors.Is(err, fs.ErrNotExist) {
				require.NoError(t, err, left.name)
			}
			t.Logf("left behind: %s (%v)", left.name, err)
		}
	})
}
