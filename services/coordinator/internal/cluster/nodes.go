package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/meta"
	"github.com/sluiceio/sluice/services/coordinator/internal/view"
)

// maxNamed is how many topics a refusal names.
const maxNamed = 10

// Nodes returns the nodes of a picture by id: those that are there, and those that
// are not and have, or may have, replicas.
func Nodes(v *view.View) []*coordinatorv1.ListNodesResponse_NodeState {
	states := make(map[string]*coordinatorv1.ListNodesResponse_NodeState)
	state := func(id string) *coordinatorv1.ListNodesResponse_NodeState {
		if states[id] == nil {
			states[id] = &coordinatorv1.ListNodesResponse_NodeState{Node: &coordinatorv1.Node{Id: id}, Forgotten: v.Forgotten(id)}
		}
		return states[id]
	}
	for _, n := range v.AllNodes() {
		s := state(n.Id)
		s.Node, s.Live = n.Node, true
	}
	for _, topic := range v.Topics() {
		for _, p := range topic.Partitions {
			for _, id := range p.Nodes {
				state(id).Replicas++
			}
		}
	}
	for _, d := range v.Deleting() {
		for _, id := range d.Nodes {
			if !v.Forgotten(id) { // else nobody waits for it
				state(id).DeletingTopics++
			}
		}
	}
	var sorted []*coordinatorv1.ListNodesResponse_NodeState
	for _, id := range slices.Sorted(maps.Keys(states)) {
		sorted = append(sorted, states[id])
	}
	return sorted
}

// lostWith returns the names of the topics that have a partition without a replica
// on any node but one and those that were given up.
func lostWith(v *view.View, id string) []string {
	var lost []string
	for _, topic := range v.Topics() {
		if slices.ContainsFunc(topic.Partitions, func(p *coordinatorv1.Assignment) bool {
			return slices.Contains(p.Nodes, id) && !slices.ContainsFunc(p.Nodes, func(node string) bool {
				return node != id && !v.Forgotten(node)
			})
		}) {
			lost = append(lost, topic.Name)
		}
	}
	return lost
}

// ForgetNode gives up a node that will not return: deletions do not wait for it any
// more, and no process of its id is let in again, since that would bring replicas
// back of which nobody knows any more. With force it also gives up partitions of
// which the node has the only replica; lost names their topics, which stay until
// somebody deletes them. It waits for no node.
//
// meta.ErrNodeNotFound, meta.ErrNodeLive, meta.ErrOnlyReplica.
func (c *Cluster) ForgetNode(ctx context.Context, id string, force bool) (lost []string, err error) {
	t, err := c.leading()
	if err != nil {
		return nil, err
	}
	if err := c.view.Sync(ctx); err != nil {
		return nil, err
	}
	lost = lostWith(c.view, id)
	if c.view.Forgotten(id) {
		return lost, nil
	}
	at := slices.IndexFunc(Nodes(c.view), func(s *coordinatorv1.ListNodesResponse_NodeState) bool { return s.Node.Id == id })
	_, live := c.view.Node(id)
	switch {
	case at < 0:
		return nil, meta.ErrNodeNotFound.WithMessage("node %q is not known: it is not there and has no replicas", shorten(id))
	case live:
		return nil, meta.ErrNodeLive.WithMessage("node %q is there: stop it first, and wait until its lease is over", id).With("node", id)
	case len(lost) > 0 && !force:
		names := lost
		if len(names) > maxNamed {
			names = append(slices.Clone(names[:maxNamed]), "…")
		}
		return nil, meta.ErrOnlyReplica.WithMessage("node %q has the only replica of partitions of %d topics: %s; force gives them up",
			id, len(lost), strings.Join(names, ", ")).With("node", id)
	}
	revision, err := c.store.ForgetNode(ctx, t.Term, id, &persistv1.ForgottenNodeRow{ForgottenAtMs: time.Now().UnixMilli()})
	if err != nil {
		return nil, t.deposed(err)
	}
	c.log.Warn("node was given up", "node", id, "lost_topics", len(lost))
	// The term drops it from the deletions as soon as the picture has it.
	return lost, c.view.WaitFor(ctx, revision)
}

// shorten keeps a name of a caller's choosing out of messages in full.
func shorten(name string) string {
	const most = 100
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}
