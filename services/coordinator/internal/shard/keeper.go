package shard

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/view"
	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/lease"
)

// Keeper owns shards in etcd on behalf of a runtime: as many as are this
// coordinator's fair share.
type Keeper[M Machine] struct {
	runtime *Runtime[M]
	etcd    *clientv3.Client
	session *lease.Session
	view    *view.View
	node    string
	// topic is the name of the topic that has the shards as partitions.
	topic string
}

// NewKeeper returns a keeper; Run starts it.
func NewKeeper[M Machine](r *Runtime[M], etcd *clientv3.Client, session *lease.Session, v *view.View, node, topic string) *Keeper[M] {
	return &Keeper[M]{runtime: r, etcd: etcd, session: session, view: v, node: node, topic: topic}
}

// Run owns shards until ctx ends. Then nobody is answered any more, and appends
// that are under way are waited for. The rows go with the process's lease.
func (k *Keeper[M]) Run(ctx context.Context) error {
	defer k.runtime.stop()
	for k.countShards(ctx); ctx.Err() == nil; {
		grant, err := k.session.Current(ctx)
		if err != nil {
			break
		}
		k.keep(ctx, grant)
	}
	return nil
}

// countShards waits for the topic that says how many shards there are, or for
// ctx's end.
func (k *Keeper[M]) countShards(ctx context.Context) {
	for {
		changed := k.view.Changed()
		if t := k.view.Topic(k.topic); t != nil {
			k.runtime.begin(len(t.Partitions))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// keep balances for as long as a lease lasts; then all tenures are over.
func (k *Keeper[M]) keep(ctx context.Context, grant *lease.Grant) {
	defer func() {
		for _, s := range k.runtime.all() {
			if t := s.current(); t != nil {
				s.disown(t)
			}
		}
	}()
	wait := backoff.New(backoff.Policy{Initial: 10 * time.Millisecond, Max: time.Second})
	var again <-chan time.Time
	for {
		changed := k.view.Changed()
		if err := k.balance(ctx, grant); err != nil {
			k.runtime.logger.Warn("shards not owned, trying again", "err", err)
			again = time.After(wait.Next())
		} else {
			wait.Reset()
			again = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-grant.Lost():
			return
		case <-changed:
		case <-k.runtime.lost:
		case <-again:
		}
	}
}

// balance compares what is owned with what the picture shows and with the fair
// share, and takes a step towards both.
func (k *Keeper[M]) balance(ctx context.Context, grant *lease.Grant) error {
	var owned []*tenure
	var free []int32
	seen := k.view.Revision()
	for _, s := range k.runtime.all() {
		t, row := s.current(), k.view.Shard(s.number)
		if t != nil && row.Epoch != t.epoch && seen >= t.epoch {
			// The row is gone, or another's.
			s.disown(t)
			t = nil
		}
		switch {
		case t != nil:
			owned = append(owned, t)
		case row.Node == "":
			free = append(free, s.number)
		case row.Node == k.node:
			// Left by a tenure that is over. Gone, it is free for whoever has
			// too few.
			if err := k.deleteRow(ctx, s.number, row.Epoch); err != nil {
				return err
			}
		}
	}
	share, ok := k.share(len(k.runtime.all()))
	if !ok {
		return nil
	}
	for len(owned) > share {
		t := owned[len(owned)-1]
		owned = owned[:len(owned)-1]
		k.runtime.shard(t.shard).disown(t)
		if err := k.deleteRow(ctx, t.shard, t.epoch); err != nil {
			return err
		}
	}
	if n := min(share-len(owned), len(free)); n > 0 {
		return k.claim(ctx, grant, free[:n])
	}
	return nil
}

// share is how many of n shards this coordinator shall own: an equal part, the
// remainder going to the first ones by id. Every coordinator finds the same
// shares. ok is false while the picture does not show this coordinator itself.
func (k *Keeper[M]) share(n int) (share int, ok bool) {
	coordinators := k.view.Nodes(view.RoleCoordinator)
	for i, c := range coordinators {
		if c.Id == k.node {
			share = n / len(coordinators)
			if i < n%len(coordinators) {
				share++
			}
			return share, true
		}
	}
	return 0, false
}

// claimChunk keeps a transaction below etcd's limit of 128 operations.
const claimChunk = 64

// claim takes shards that nobody owns: all at once, or, when somebody was
// faster with one of them, one by one.
func (k *Keeper[M]) claim(ctx context.Context, grant *lease.Grant, shards []int32) error {
	for len(shards) > 0 {
		n := min(len(shards), claimChunk)
		ok, err := k.claimAll(ctx, grant, shards[:n])
		if err != nil {
			return err
		}
		if !ok && n > 1 {
			for _, s := range shards[:n] {
				if _, err := k.claimAll(ctx, grant, []int32{s}); err != nil {
					return err
				}
			}
		}
		shards = shards[n:]
	}
	return nil
}

func (k *Keeper[M]) claimAll(ctx context.Context, grant *lease.Grant, shards []int32) (bool, error) {
	row, err := proto.Marshal(&persistv1.ShardRow{Node: k.node})
	if err != nil {
		return false, fmt.Errorf("encode the row of a shard: %w", err)
	}
	var absent []clientv3.Cmp
	var puts []clientv3.Op
	for _, s := range shards {
		key := rows.ShardKey(s)
		absent = append(absent, clientv3.Compare(clientv3.CreateRevision(key), "=", 0))
		puts = append(puts, clientv3.OpPut(key, string(row), clientv3.WithLease(grant.ID)))
	}
	resp, err := k.etcd.Txn(ctx).If(absent...).Then(puts...).Commit()
	if err != nil {
		return false, fmt.Errorf("claim shards: %w", err)
	}
	if !resp.Succeeded {
		return false, nil
	}
	for _, s := range shards {
		t := &tenure{shard: s, epoch: resp.Header.Revision, grant: grant}
		t.ctx, t.end = context.WithCancel(context.Background())
		k.runtime.shard(s).own(t)
	}
	k.runtime.logger.Debug("shards claimed", "shards", shards, "epoch", resp.Header.Revision)
	return true, nil
}

func (k *Keeper[M]) deleteRow(ctx context.Context, shard int32, epoch int64) error {
	key := rows.ShardKey(shard)
	_, err := k.etcd.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", epoch)).
		Then(clientv3.OpDelete(key)).
		Commit()
	if err != nil {
		return fmt.Errorf("give up shard %d: %w", shard, err)
	}
	return nil
}
