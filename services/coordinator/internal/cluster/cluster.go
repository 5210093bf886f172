// Package cluster is what the elected coordinator does: it makes and deletes
// topics, and sees to it that every storage node holds the replicas that etcd
// says it holds.
//
// A topic's row comes first, then its replicas. So a crash in between leaves a
// row without replicas and never a replica without a row, and the next leader,
// who tells every node again what it holds, completes the topic. In the same
// way a deleted topic's row stays until the last of its nodes has removed its
// replicas.
//
// All that a node is told goes through one worker a node, one call at a time,
// in the order in which etcd has it: a placement that was meant before a
// deletion is never sent after it.
package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/meta"
	"github.com/sluiceio/sluice/services/coordinator/internal/peer"
	"github.com/sluiceio/sluice/services/coordinator/internal/place"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/view"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// ErrTooFewNodes means that a topic shall have more replicas than there are nodes.
var ErrTooFewNodes = errs.New(errs.FailedPrecondition, "TOO_FEW_NODES", "there are fewer storage nodes than replicas")

// ErrTopicGone means that a topic was deleted while it was being made.
var ErrTopicGone = errs.New(errs.Aborted, "TOPIC_GONE", "the topic was deleted meanwhile")

// Config is how topics are made.
type Config struct {
	// ReplicationFactor is that of topics that name none.
	ReplicationFactor int
	// CallTimeout limits one call to a storage node.
	CallTimeout time.Duration
	// ShardTopic is the topic of the coordinators' shards, made when it is not
	// there.
	ShardTopic ShardTopic
}

// ShardTopic is the internal topic that the shards' logs are.
type ShardTopic struct {
	Name       string
	Partitions int32
	Config     map[string]string
}

// Cluster makes the changes while this coordinator is the elected one.
type Cluster struct {
	cfg   Config
	store *meta.Store
	view  *view.View
	peers *peer.Peers
	log   *slog.Logger

	mu struct {
		sync.Mutex
		// term is nil while another coordinator leads.
		term *term
	}
}

// New returns a cluster that nobody leads yet; Lead is to be called by the
// election.
func New(cfg Config, store *meta.Store, v *view.View, peers *peer.Peers, log *slog.Logger) *Cluster {
	return &Cluster{cfg: cfg, store: store, view: v, peers: peers, log: log}
}

// Leads reports whether this coordinator is the elected one.
func (c *Cluster) Leads() bool { return c.current() != nil }

func (c *Cluster) current() *term {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.term
}

// leading returns the present term. meta.ErrNotLeader.
func (c *Cluster) leading() (*term, error) {
	if t := c.current(); t != nil {
		return t, nil
	}
	return nil, meta.ErrNotLeader
}

// CreateTopic checks, places and stores a topic and has its replicas made. The
// revision is the one from which on the picture has it.
func (c *Cluster) CreateTopic(ctx context.Context, req *coordinatorv1.CreateTopicRequest) (*coordinatorv1.Topic, error) {
	t, err := c.leading()
	if err != nil {
		return nil, err
	}
	if err := meta.CheckName(req.Name); err != nil {
		return nil, err
	}
	return c.create(ctx, t, req, false)
}

func (c *Cluster) create(ctx context.Context, t *term, req *coordinatorv1.CreateTopicRequest, internal bool) (*coordinatorv1.Topic, error) {
	if req.Partitions < 1 || req.Partitions > meta.MaxPartitions {
		return nil, errs.New(errs.InvalidArgument, "INVALID_PARTITIONS",
			"a topic has 1 to %d partitions, not %d", meta.MaxPartitions, req.Partitions)
	}
	if req.ReplicationFactor < 0 {
		return nil, errs.New(errs.InvalidArgument, "INVALID_REPLICATION_FACTOR",
			"the replication factor is at least 1, not %d", req.ReplicationFactor)
	}
	config, err := meta.ApplyConfig(nil, req.Config, nil)
	if err != nil {
		return nil, err
	}
	replicas := int(req.ReplicationFactor)
	if replicas == 0 {
		replicas = c.cfg.ReplicationFactor
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("make an id for topic %q: %w", req.Name, err)
	}
	nodes, silent := c.candidates(t)
	if replicas > len(nodes) {
		// Perhaps one came this very moment.
		if err := c.view.Sync(ctx); err != nil {
			return nil, err
		}
		nodes, silent = c.candidates(t)
	}
	switch {
	case replicas > len(nodes)+len(silent):
		return nil, ErrTooFewNodes.WithMessage("%d replicas need as many storage nodes; there are %d", replicas, len(nodes)+len(silent))
	case replicas > len(nodes):
		// Nothing is begun that would have to be taken back.
		return nil, peer.ErrNodeAway.WithMessage("storage node %q does not answer", silent[0]).With("node", silent[0])
	}
	assignments, err := place.Place(nodes, int(req.Partitions), replicas, binary.BigEndian.Uint64(id[:]))
	if err != nil {
		return nil, fmt.Errorf("place topic %q: %w", req.Name, err)
	}
	row := &persistv1.TopicRow{
		Id: id[:], Name: req.Name, Config: config, Internal: internal, CreatedAtMs: time.Now().UnixMilli(),
	}
	row.Nodes, row.Partitions = rows.Partitions(assignments)

	stored, err := c.store.Create(ctx, t.Term, row)
	if err != nil {
		return nil, t.deposed(err)
	}
	topic, err := rows.Topic(stored.TopicRow, stored.Version)
	if err != nil {
		return nil, err
	}
	if err := t.place(ctx, topic, row.Nodes); err != nil {
		// Whoever gave up waiting, what was begun is taken back.
		c.log.Warn("topic not made, taking it back", "topic", req.Name, "err", err)
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.CallTimeout)
		defer cancel()
		marked, withdrawn, undoErr := c.store.Withdraw(undo, t.Term, stored)
		if undoErr != nil {
			// The row stays, and the nodes are told again: the topic comes to be.
			c.log.Error("topic not taken back", "topic", req.Name, "err", undoErr)
			return nil, t.deposed(errors.Join(err, undoErr))
		}
		if withdrawn {
			t.remove(deletingOf(marked))
		}
		return nil, err
	}
	return topic, nil
}

func deletingOf(marked meta.Row) view.Deleting {
	return view.Deleting{ID: marked.ID(), Name: marked.Name, Nodes: marked.Nodes, Revision: marked.Version}
}

// candidates are the nodes that may hold replicas, with their load. silent are
// registered, too, and did not answer when they were last told something: a topic
// that is placed on one of them fails and leaves a row behind until the node has
// removed what it may have of it, so that tries over and over would pile them up.
func (c *Cluster) candidates(t *term) (nodes []place.Node, silent []string) {
	load := make(map[string]int)
	for _, t := range c.view.Topics() {
		for _, p := range t.Partitions {
			for _, node := range p.Nodes {
				load[node]++
			}
		}
	}
	for _, n := range c.view.Nodes(view.RoleStorage) {
		if t.silent(n.Id) {
			silent = append(silent, n.Id)
			continue
		}
		nodes = append(nodes, place.Node{ID: n.Id, Rack: n.Rack, Load: load[n.Id]})
	}
	return nodes, silent
}

// UpdateTopicConfig changes configs of a topic, all or none. The nodes that are
// there know of it when the call returns; those that are not learn of it when
// they are back.
func (c *Cluster) UpdateTopicConfig(ctx context.Context, req *coordinatorv1.UpdateTopicConfigRequest) (*coordinatorv1.Topic, error) {
	t, err := c.leading()
	if err != nil {
		return nil, err
	}
	row, err := c.store.UpdateConfig(ctx, t.Term, req.Name, req.Set, req.Unset)
	if err != nil {
		return nil, t.deposed(err)
	}
	topic, err := rows.Topic(row.TopicRow, row.Version)
	if err != nil {
		return nil, err
	}
	if err := t.place(ctx, topic, row.Nodes); err != nil {
		c.log.Info("a node does not know of a changed config yet", "topic", req.Name, "err", err)
	}
	return topic, nil
}

// DeleteTopic deletes a topic; version of what it returns is the revision from
// which on the picture no longer has it. Replicas on the nodes that are there
// are gone when the call returns.
func (c *Cluster) DeleteTopic(ctx context.Context, name string) (*coordinatorv1.Topic, error) {
	t, err := c.leading()
	if err != nil {
		return nil, err
	}
	row, err := c.store.Delete(ctx, t.Term, name)
	if err != nil {
		return nil, t.deposed(err)
	}
	topic, err := rows.Topic(row.TopicRow, row.Version)
	if err != nil {
		return nil, err
	}
	wait := t.remove(deletingOf(row))
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	wait(ctx)
	return topic, nil
}
