// Package reports follows what the storage nodes say about their replicas: one
// stream to each live node. Every coordinator does so, the elected one or not:
// streams are few and silent, and leaders are then known wherever there is a
// coordinator, also while none is elected.
package reports

import (
	"context"
	"log/slog"
	"sync"
	"time"

	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/peer"
	"github.com/sluiceio/sluice/services/coordinator/internal/view"
	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/confine"
)

// Follower holds the streams.
type Follower struct {
	view  *view.View
	peers *peer.Peers
	log   *slog.Logger
}

// New returns a follower; Run starts it.
func New(v *view.View, peers *peer.Peers, log *slog.Logger) *Follower {
	return &Follower{view: v, peers: peers, log: log}
}

// Run keeps one stream to every live storage node until ctx ends. What a node
// said last holds while its stream is being restored, and until its row is gone
// from etcd.
func (f *Follower) Run(ctx context.Context) error {
	var streams sync.WaitGroup
	defer streams.Wait()
	type stream struct {
		incarnation string
		stop        context.CancelFunc
	}
	running := make(map[string]stream)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		changed := f.view.Changed()
		live := make(map[string]bool)
		for _, n := range f.view.Nodes(view.RoleStorage) {
			live[n.Id] = true
			if s, ok := running[n.Id]; ok {
				if s.incarnation == n.Incarnation {
					continue
				}
				s.stop()
			}
			streamCtx, stop := context.WithCancel(ctx)
			running[n.Id] = stream{incarnation: n.Incarnation, stop: stop}
			confine.Go(&streams, f.log, nil, func() { f.follow(streamCtx, n.Id) })
		}
		for id, s := range running {
			if !live[id] {
				s.stop()
				delete(running, id)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// follow restores one node's stream until ctx ends.
func (f *Follower) follow(ctx context.Context, node string) {
	wait := backoff.New(backoff.Policy{Initial: 10 * time.Millisecond, Max: time.Second})
	for ctx.Err() == nil {
		err := confine.Attempt(ctx, f.log, func() error { return f.stream(ctx, node, wait.Reset) })
		if ctx.Err() == nil {
			f.log.Debug("stream of a node's replicas broke", "node", node, "err", err)
			_ = wait.Wait(ctx)
		}
	}
}

func (f *Follower) stream(ctx context.Context, node string, received func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream at the node
	replicas, err := f.peers.Replicas(ctx, node)
	if err != nil {
		return err
	}
	stream, err := replicas.WatchReplicas(ctx, &storagev1.WatchReplicasRequest{})
	if err != nil {
		return err
	}
	reporter := f.view.Reporter(node)
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		received()
		reporter.Report(m)
	}
}
