// Package view is a coordinator's picture of the cluster: topics, nodes and
// owners of shards as etcd has them, and leaders of partitions as the storage
// nodes report them. Every coordinator has its own, so any of them can tell a
// gateway everything, and none waits for another.
//
// The picture is in memory; readers get values that are never changed. Each
// change is also noted in a bounded log, by what it was about and not by what it
// was: a follower that has fallen behind gets the present state of everything
// that changed since, once, and one that has fallen out of the log gets a fresh
// snapshot.
package view

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/kit/lease"
)

// View is the picture. Its methods may be called by many goroutines.
type View struct {
	watcher *lease.Watcher
	log     *slog.Logger

	mu struct {
		sync.RWMutex
		// revision is etcd's; everything up to it is in the picture. 0 before
		// the first snapshot.
		revision int64
		// keys are the rows that the picture is made of, with the revision of
		// each, so that a snapshot can be told apart from what is known.
		keys map[string]int64

		topics   map[string]*coordinatorv1.Topic
		byID     map[rows.TopicID]*coordinatorv1.Topic
		deleting map[rows.TopicID]Deleting
		nodes    map[string]Node
		// forgotten are the nodes that were given up.
		forgotten map[string]bool
		shards    map[int32]Shard
		// candidates are the keys of the election with the node behind each.
		candidates map[string]candidate

		leaders map[rows.TopicID]*leaders
		// removals counts topics that went.
		removals uint64
		// topicChanges counts changes of topics, removals too.
		topicChanges uint64

		changes changeLog
		// changed is closed, and replaced, with each change.
		changed chan struct{}
	}
}

type candidate struct {
	node string
	// revision is the key's create revision; the lowest leads.
	revision int64
}

// Node is a live process.
type Node struct {
	*coordinatorv1.Node
	// Incarnation tells one life of the process from the next.
	Incarnation string
}

// Has reports whether the process runs a service.
func (n Node) Has(role string) bool { return slices.Contains(n.Roles, role) }

// Roles that the coordinator looks for.
const (
	RoleStorage     = "storage"
	RoleCoordinator = "coordinator"
)

// Shard is a shard's owner.
type Shard struct {
	// Node is empty where nobody owns the shard just now.
	Node string
	// Epoch is the create revision of the owner's row.
	Epoch int64
}

// Deleting is a topic whose replicas are being removed.
type Deleting struct {
	ID   rows.TopicID
	Name string
	// Nodes held replicas.
	Nodes []string
	// Revision is that of the deletion.
	Revision int64
}

// New returns an empty picture; Run fills it and keeps it up to date.
func New(etcd *clientv3.Client, log *slog.Logger) *View {
	v := &View{watcher: lease.NewWatcher(etcd, rows.Root, log), log: log}
	v.mu.keys = make(map[string]int64)
	v.mu.topics = make(map[string]*coordinatorv1.Topic)
	v.mu.byID = make(map[rows.TopicID]*coordinatorv1.Topic)
	v.mu.deleting = make(map[rows.TopicID]Deleting)
	v.mu.nodes = make(map[string]Node)
	v.mu.forgotten = make(map[string]bool)
	v.mu.shards = make(map[int32]Shard)
	v.mu.candidates = make(map[string]candidate)
	v.mu.leaders = make(map[rows.TopicID]*leaders)
	v.mu.changed = make(chan struct{})
	return v
}

// Run follows etcd until ctx ends.
func (v *View) Run(ctx context.Context) error { return v.watcher.Run(ctx, v.apply) }

// WaitFor waits until the picture has reached the revision of a change to a row.
func (v *View) WaitFor(ctx context.Context, revision int64) error {
	return v.watcher.WaitFor(ctx, revision)
}

// Sync waits until the picture has every change that was made before the call.
func (v *View) Sync(ctx context.Context) error { return v.watcher.Sync(ctx) }

// Revision is how far the picture has come; 0 while there is none.
func (v *View) Revision() int64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.mu.revision
}

// Changed is closed with the next change of anything in the picture. Take it
// before reading.
func (v *View) Changed() <-chan struct{} {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.mu.changed
}

// Topic returns a topic by name, or nil.
func (v *View) Topic(name string) *coordinatorv1.Topic {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.mu.topics[name]
}

// TopicByID returns a topic, or nil.
func (v *View) TopicByID(id rows.TopicID) *coordinatorv1.Topic {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.mu.byID[id]
}

// Partitions returns how many partitions a topic has; ok is false when the
// picture does not have it.
func (v *View) Partitions(id rows.TopicID) (n int32, ok bool) {
	t := v.TopicByID(id)
	return int32(len(t.GetPartitions())), t != nil
}

// Name returns a topic's name, empty when the picture does not have it.
func (v *View) Name(id rows.TopicID) string { return v.TopicByID(id).GetName() }

// TopicCount returns how many topics there are.
func (v *View) TopicCount() int {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return len(v.mu.topics)
}

// Topics returns all topics, sorted by name.
func (v *View) Topics() []*coordinatorv1.Topic {
	v.mu.RLock()
	topics := slices.Collect(maps.Values(v.mu.topics))
	v.mu.RUnlock()
	slices.SortFunc(topics, func(a, b *coordinatorv1.Topic) int { return strings.Compare(a.Name, b.Name) })
	return topics
}

// Removals counts the topics that were removed since the picture began.
func (v *View) Removals() uint64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.mu.removals
}

// TopicChanges counts the changes of topics since the picture began, removals
// too.
func (v *View) TopicChanges() uint64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.mu.topicChanges
}

// Deleting returns the topics that are being deleted.
func (v *View) Deleting() []Deleting {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Collect(maps.Values(v.mu.deleting))
}

// Node returns a live node.
func (v *View) Node(id string) (Node, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	n, ok := v.mu.nodes[id]
	return n, ok
}

// Nodes returns the live nodes that run a service, sorted by id.
func (v *View) Nodes(role string) []Node {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var nodes []Node
	for _, n := range v.mu.nodes {
		if n.Has(role) {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Id, b.Id) })
	return nodes
}

// AllNodes returns the live nodes, in no order.
func (v *View) AllNodes() []Node {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return slices.Collect(maps.Values(v.mu.nodes))
}

// Forgotten reports whether a node was given up.
func (v *View) Forgotten(id string) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.mu.forgotten[id]
}

// Shard returns a shard's owner.
func (v *View) Shard(shard int32) Shard {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.mu.shards[shard]
}

// Elected returns the node of the elected coordinator, "" when there is none.
func (v *View) Elected() string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var first candidate
	for _, c := range v.mu.candidates {
		if first.revision == 0 || c.revision < first.revision {
			first = c
		}
	}
	return first.node
}

// changedLocked notes a change and wakes who waits.
func (v *View) changedLocked(c change) {
	v.mu.changes.add(c)
	v.wakeLocked()
}

func (v *View) wakeLocked() {
	close(v.mu.changed)
	v.mu.changed = make(chan struct{})
}
