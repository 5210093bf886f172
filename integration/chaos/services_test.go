package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
)

// servicesSiege is a cluster of separate services under writers and members of a
// group, of which some processes are killed in each round.
type servicesSiege struct {
	services   *cluster.Services
	random     *rand.Rand
	ledger     *Ledger
	gate       *gate
	apis       [2]*httpapi.Client
	committers []*committer
	sequenced  []*sequencedWriter
	members    []*member
}

func newServicesSiege(t *testing.T) *servicesSiege {
	s := &servicesSiege{
		services: cluster.NewServices(t, cluster.Options{Flags: []string{
			"--leader-wait", "1s", "--lease-ttl", "3s", "--coord-member-timeout", "5m",
		}}),
		random: newRandom(t), ledger: NewLedger(partitions), gate: &gate{},
	}
	cluster.Start(t, s.services)
	for i, g := range s.services.Gateways {
		transport := &http.Transport{MaxIdleConnsPerHost: 256}
		t.Cleanup(transport.CloseIdleConnections)
		s.apis[i] = &httpapi.Client{Base: g.HTTP(), HTTP: &http.Client{Transport: s.gate.over(transport)}}
	}
	require.NoError(t, s.apis[0].CreateTopic(t.Context(), topic, partitions, map[string]any{"segment_bytes": 64 << 10}))
	for partition := range partitions {
		s.committers = append(s.committers, newCommitter(s.api(partition), "g", topic, partition))
	}
	for i := range sequencedWriters {
		s.sequenced = append(s.sequenced, newSequencedWriter(httpWriters+grpcWriters+i, s.api(i), topic, s.ledger, s.random.Uint64()))
	}
	for i := range 3 {
		m := &member{api: s.api(i), group: "members", topic: topic, id: fmt.Sprint("member-", i)}
		require.NoError(t, patiently(t.Context(), func() error { return m.join(t.Context()) }))
		s.members = append(s.members, m)
	}
	return s
}

// patiently repeats what is told to try again. Coordinators that come share out the
// shards anew, which on a busy machine takes longer than --leader-wait.
func patiently(ctx context.Context, do func() error) error {
	for {
		err := do()
		if ctx.Err() != nil || !triesAgain(err) {
			return err
		}
		wait(tryAgainAfter)
	}
}

const tryAgainAfter = 10 * time.Millisecond

// triesAgain says that an answer told its caller to try again, and that nothing was
// done.
func triesAgain(err error) bool {
	var answer *httpapi.Error
	unavailable := errors.As(err, &answer) && answer.Status == http.StatusServiceUnavailable || status.Code(err) == codes.Unavailable
	return unavailable && !strings.Contains(err.Error(), "may or may not")
}

// api is that of one gateway or the other.
func (s *servicesSiege) api(i int) *httpapi.Client { return s.apis[i%len(s.apis)] }

// assault lets all clients work until some processes are killed under them, and a
// while longer, and returns the dead.
func (s *servicesSiege) assault(t *testing.T) []*cluster.Service {
	ctx, cancel := context.WithTimeout(t.Context(), roundTimeout)
	defer cancel()
	s.gate.shut.Store(false)
	var clients sync.WaitGroup
	killed := make(chan struct{})
	run := func(name string, client interface{ run(context.Context) error }) {
		clients.Go(func() {
			for {
				err := client.run(ctx)
				var back errBack
				select {
				case <-killed:
					if errors.As(err, &back) {
						t.Errorf("%s: %v", name, err)
					}
					return
				default:
				}
				if !triesAgain(err) {
					t.Errorf("%s ended before the kill: %v", name, err)
					return
				}
				wait(tryAgainAfter)
			}
		})
	}
	for number := range httpWriters + grpcWriters {
		w := &writer{number: number, topic: topic, ledger: s.ledger, random: rand.New(rand.NewPCG(s.random.Uint64(), 0))}
		if w.producer = (httpProducer{s.api(number)}); number >= httpWriters {
			conn, err := grpc.NewClient(s.services.Gateways[number%2].GRPC(),
				grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(s.gate.unary))
			require.NoError(t, err)
			defer conn.Close()
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
	for _, m := range s.members {
		run("a member", m)
	}
	run("a reader", &tailer{s.api(0), topic, s.random.IntN(partitions), s.ledger})

	wait(between(s.random, time.Millisecond, 500*time.Millisecond))
	close(killed)
	all := s.services.All()
	s.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	dead := all[:1+s.random.IntN(3)]
	for _, p := range dead {
		t.Logf("kill %s", p.Name)
		p.Kill()
	}
	// Long enough at times for others to take over.
	wait(between(s.random, time.Millisecond, 1500*time.Millisecond))
	s.gate.shut.Store(true)
	clients.Wait()
	s.gate.shut.Store(false)
	return dead
}

func wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// review reads back what is new, or everything, through both gateways, and looks at
// the groups.
func (s *servicesSiege) review(t *testing.T, everything bool) {
	ctx, cancel := context.WithTimeout(t.Context(), roundTimeout)
	defer cancel()
	for partition := range partitions {
		from := s.ledger.Checked(partition)
		if everything {
			from = 0
		}
		api := s.api(partition + s.random.IntN(2))
		var records []httpapi.Consumed
		require.NoError(t, patiently(ctx, func() (err error) {
			records, err = api.ReadFrom(ctx, topic, partition, from)
			return err
		}))
		require.NoError(t, s.ledger.Check(partition, from, records))
		require.NoError(t, patiently(ctx, func() error { return s.committers[partition].check(ctx) }))
	}
	var shared []int
	generations := map[int64]bool{}
	for _, m := range s.members {
		var share []int
		require.NoError(t, patiently(ctx, func() (err error) {
			share, err = m.share(ctx)
			return err
		}))
		shared = append(shared, share...)
		generations[m.generation] = true
	}
	require.Len(t, generations, 1)
	slices.Sort(shared)
	require.Equal(t, []int{0, 1, 2, 3}, shared, "each partition has one member")
}

// settle waits until what was killed serves again: those that look for it need a
// moment, and a request that does not wait longer than --leader-wait is refused.
func (s *servicesSiege) settle(t *testing.T) {
	require.Eventually(t, func() bool {
		for _, api := range s.apis {
			for partition := range partitions {
				if _, err := api.Consume(t.Context(), topic, partition, 0); err != nil {
					return false
				}
			}
			for _, group := range []string{"g", "members"} {
				if _, err := api.Offsets(t.Context(), group); err != nil {
					return false
				}
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond)
}

// TestKillServices kills some of the services of a cluster again and again.
func TestKillServices(t *testing.T) {
	s := newServicesSiege(t)
	p := newPace(t)
	for p.next() {
		dead := s.assault(t)
		require.False(t, t.Failed())
		for _, service := range dead {
			cluster.Start(t, service)
		}
		s.settle(t)
		s.review(t, p.round%fullCheck == 0)
	}
	for _, w := range s.sequenced {
		require.NoError(t, patiently(t.Context(), func() error { return w.finish(t.Context()) }))
	}
	require.NoError(t, s.services.Stop())
	cluster.Start(t, s.services)
	s.settle(t)
	s.review(t, true)
	var records int64
	for partition := range partitions {
		records += s.ledger.Checked(partition)
	}
	require.Positive(t, records)
	t.Logf("%d rounds: %d records are all there", p.round-1, records)
}
