package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/elect"
	"github.com/sluiceio/sluice/services/coordinator/internal/meta"
	"github.com/sluiceio/sluice/services/coordinator/internal/peer"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/view"
	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/confine"
)

// term is the time in which this coordinator leads: a worker for each live
// storage node, and the deletions that are under way.
type term struct {
	elect.Term
	cluster *Cluster
	// ctx ends with the term.
	ctx  context.Context
	end  context.CancelCauseFunc
	work sync.WaitGroup

	mu struct {
		sync.Mutex
		// over is set when no more workers may start.
		over      bool
		workers   map[string]*worker
		deletions map[rows.TopicID]*deletion
	}
}

// deletion is a topic whose replicas are being removed.
type deletion struct {
	view.Deleting
	// remaining are nodes that may still hold replicas.
	remaining map[string]bool
	// removed is closed when live nodes hold none any more.
	removed chan struct{}
	// closed says that removed is closed.
	closed bool
	// forgotten says that the row is gone, or about to.
	forgotten bool
}

// Lead does the elected coordinator's work until ctx, the term, ends.
func (c *Cluster) Lead(ctx context.Context, e elect.Term) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	// What the leaders before have done must be in the picture.
	if err := c.view.WaitFor(ctx, e.Revision); err != nil {
		return err
	}
	t := &term{Term: e, cluster: c, ctx: ctx, end: end}
	t.mu.workers = make(map[string]*worker)
	t.mu.deletions = make(map[rows.TopicID]*deletion)
	defer t.stop()

	c.mu.Lock()
	c.mu.term = t
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.mu.term = nil
		c.mu.Unlock()
	}()
	return t.run()
}

// run follows the picture.
func (t *term) run() error {
	t.begin(t.ensureShardTopic)
	for {
		changed := t.cluster.view.Changed()
		t.syncWorkers()
		for _, d := range t.cluster.view.Deleting() {
			t.remove(d)
		}
		t.dropForgotten()
		select {
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		case <-changed:
		}
	}
}

// begin has something done that stop waits for. A panic in it ends the term: whoever
// is elected next begins with what etcd has.
func (t *term) begin(do func()) {
	confine.Go(&t.work, t.log(), t.end, do)
}

func (t *term) stop() {
	t.end(nil)
	t.mu.Lock()
	t.mu.over = true
	workers := t.mu.workers
	t.mu.workers = nil
	t.mu.Unlock()
	for _, w := range workers {
		w.stop()
	}
	t.work.Wait()
}

// deposed ends the term when a guarded change says that it is over.
func (t *term) deposed(err error) error {
	if errors.Is(err, meta.ErrNotLeader) {
		t.end(err)
	}
	return err
}

// syncWorkers has a worker for each life of each live storage node. A new one
// begins by telling the node all that it holds.
func (t *term) syncWorkers() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.over {
		return
	}
	live := make(map[string]bool)
	for _, n := range t.cluster.view.Nodes(view.RoleStorage) {
		live[n.Id] = true
		if w, ok := t.mu.workers[n.Id]; ok {
			if w.incarnation == n.Incarnation {
				continue
			}
			w.stop()
		}
		w := newWorker(t, n)
		t.mu.workers[n.Id] = w
		for id, d := range t.mu.deletions {
			if d.remaining[n.Id] {
				w.remove(id, d.Revision)
			}
		}
		t.begin(w.run)
	}
	for id, w := range t.mu.workers {
		if !live[id] {
			w.stop()
			delete(t.mu.workers, id)
			t.settleDeletionsLocked()
		}
	}
}

// place has a topic placed on its nodes and returns when all have answered.
func (t *term) place(ctx context.Context, topic *coordinatorv1.Topic, nodes []string) error {
	ctx, cancel := context.WithTimeout(ctx, t.cluster.cfg.CallTimeout)
	defer cancel()
	answers := make(chan error, len(nodes))
	t.syncWorkers() // the picture may have a node that has no worker yet
	t.mu.Lock()
	for _, node := range nodes {
		if w, ok := t.mu.workers[node]; ok {
			w.place(topic, answers)
		} else {
			answers <- peer.ErrNodeAway.WithMessage("storage node %q is away", node).With("node", node)
		}
	}
	t.mu.Unlock()
	var failed error
	for range nodes {
		select {
		case err := <-answers:
			failed = errors.Join(failed, err)
		case <-ctx.Done():
			t.suspect(nodes)
			return peer.ErrNodeAway.WithMessage("the storage nodes do not answer").Because(errors.Join(failed, ctx.Err()))
		}
	}
	return first(failed)
}

// suspect takes nodes for silent until they answer the next time.
func (t *term) suspect(nodes []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, node := range nodes {
		if w, ok := t.mu.workers[node]; ok {
			w.setSilent(true)
		}
	}
}

// silent tells whether a node did not answer when it was last told something.
func (t *term) silent(node string) bool {
	t.mu.Lock()
	w := t.mu.workers[node]
	t.mu.Unlock()
	return w != nil && w.isSilent()
}

// first returns the first of joined errors, which is one that has a status.
func first(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return first(joined.Unwrap()[0])
	}
	return err
}

// remove has a deleted topic's replicas removed wherever they are, now or when
// the node is back. What it returns waits for the nodes that are there.
func (t *term) remove(d view.Deleting) (wait func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	del, ok := t.mu.deletions[d.ID]
	if !ok && !t.mu.over {
		del = &deletion{Deleting: d, remaining: make(map[string]bool), removed: make(chan struct{})}
		t.mu.deletions[d.ID] = del
		for _, node := range d.Nodes {
			if t.cluster.view.Forgotten(node) {
				continue
			}
			del.remaining[node] = true
			if w, ok := t.mu.workers[node]; ok {
				w.remove(d.ID, d.Revision)
			}
		}
		t.settleDeletionsLocked()
	}
	return func(ctx context.Context) {
		if del == nil {
			return
		}
		select {
		case <-del.removed:
		case <-ctx.Done():
		case <-t.ctx.Done():
		}
	}
}

// dropForgotten has no deletion wait for a node that was given up.
func (t *term) dropForgotten() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.mu.deletions {
		maps.DeleteFunc(d.remaining, func(node string, _ bool) bool { return t.cluster.view.Forgotten(node) })
	}
	t.settleDeletionsLocked()
}

// deleted reports whether a topic must not be placed any more: it is among the
// deletions until the picture has seen it go, and after that the picture knows.
func (t *term) deleted(topic *coordinatorv1.Topic) bool {
	id := rows.TopicID(topic.Id)
	t.mu.Lock()
	_, deleting := t.mu.deletions[id]
	t.mu.Unlock()
	v := t.cluster.view
	return deleting || v.Revision() >= topic.Version && v.TopicByID(id) == nil
}

// removedFrom notes that a node holds no replica of the topics any more.
func (t *term) removedFrom(node string, ids []rows.TopicID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		if d, ok := t.mu.deletions[id]; ok {
			delete(d.remaining, node)
		}
	}
	t.settleDeletionsLocked()
}

// settleDeletionsLocked wakes who waits for live nodes, and forgets topics of
// which nothing is left.
func (t *term) settleDeletionsLocked() {
	for id, d := range t.mu.deletions {
		live := false
		for node := range d.remaining {
			_, up := t.mu.workers[node]
			live = live || up
		}
		if !live && !d.closed {
			d.closed = true
			close(d.removed)
		}
		if len(d.remaining) == 0 && !d.forgotten && !t.mu.over {
			d.forgotten = true
			t.begin(func() { t.forget(id) })
		}
	}
}

// forget removes the row of a deleted topic.
func (t *term) forget(id rows.TopicID) {
	wait := backoff.New(backoff.Policy{})
	for t.ctx.Err() == nil {
		err := t.deposed(t.cluster.store.Forget(t.ctx, t.Term, id))
		if err == nil {
			// Kept in mind until the picture has seen the row go, else its next
			// change would begin the deletion again.
			if t.cluster.view.Sync(t.ctx) == nil {
				t.mu.Lock()
				delete(t.mu.deletions, id)
				t.mu.Unlock()
			}
			return
		}
		t.log().Warn("row of a deleted topic not removed, trying again", "topic", id, "err", err)
		_ = wait.Wait(t.ctx)
	}
}

// ensureShardTopic makes the topic of the shards, as soon as there is a node
// that can hold it.
func (t *term) ensureShardTopic() {
	want := t.cluster.cfg.ShardTopic
	wait := backoff.New(backoff.Policy{Initial: 10 * time.Millisecond, Max: time.Second})
	for t.ctx.Err() == nil {
		changed := t.cluster.view.Changed()
		if t.cluster.view.Topic(want.Name) != nil {
			return
		}
		if len(t.cluster.view.Nodes(view.RoleStorage)) < t.cluster.cfg.ReplicationFactor {
			select {
			case <-t.ctx.Done():
			case <-changed:
			}
			continue
		}
		_, err := t.cluster.create(t.ctx, t, &coordinatorv1.CreateTopicRequest{
			Name: want.Name, Partitions: want.Partitions, Config: want.Config,
		}, true)
		if err == nil || errors.Is(err, meta.ErrTopicExists) {
			return
		}
		t.log().Warn("topic of the shards not made, trying again", "topic", want.Name, "err", err)
		_ = wait.Wait(t.ctx)
	}
}

func (t *term) log() *slog.Logger { return t.cluster.log }

// held returns the topics of which a node holds replicas.
func (t *term) held(node string) []*coordinatorv1.Topic {
	return slices.DeleteFunc(t.cluster.view.Topics(), func(topic *coordinatorv1.Topic) bool {
		for _, p := range topic.Partitions {
			if slices.Contains(p.Nodes, node) {
				return false
			}
		}
		return true
	})
}

var errWorkerGone = fmt.Errorf("the node is gone or has started anew")
