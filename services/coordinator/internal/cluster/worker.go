package cluster

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	coordinatorv1 "github.com/sluiceio/sluice/gen/go/sluice/coordinator/v1"
	storagev1 "github.com/sluiceio/sluice/gen/go/sluice/storage/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/peer"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/coordinator/internal/view"
	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/errs"
)

// worker tells one life of one storage node what it holds, one call at a time.
// What arrives during a call goes into the next. A call that fails is followed,
// after a wait, by telling the node everything again.
type worker struct {
	term        *term
	node        string
	incarnation string
	ctx         context.Context
	stop        context.CancelFunc
	wake        chan struct{}

	mu struct {
		sync.Mutex
		// gone is set when nobody takes up work any more.
		gone bool
		// silent is set after a call that the node did not answer, until it answers
		// one.
		silent bool
		pending
	}
}

// pending is what the node has to be told.
type pending struct {
	// everything is all that the picture has on the node.
	everything bool
	// topics are to be placed even though the picture may not have them yet.
	topics  map[rows.TopicID]*coordinatorv1.Topic
	waiters []waiter
	// removed are topics to be removed, with the revisions of their deletions.
	removed map[rows.TopicID]int64
}

// waiter waits for a topic to be placed.
type waiter struct {
	topic  rows.TopicID
	answer chan<- error
}

func (p *pending) empty() bool { return !p.everything && len(p.topics) == 0 && len(p.removed) == 0 }

func newWorker(t *term, n view.Node) *worker {
	w := &worker{term: t, node: n.Id, incarnation: n.Incarnation, wake: make(chan struct{}, 1)}
	w.ctx, w.stop = context.WithCancel(t.ctx)
	w.mu.everything = true
	return w
}

// place queues a topic; one answer will come.
func (w *worker) place(topic *coordinatorv1.Topic, answer chan<- error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.gone {
		answer <- w.away(errWorkerGone)
		return
	}
	if w.mu.topics == nil {
		w.mu.topics = make(map[rows.TopicID]*coordinatorv1.Topic)
	}
	id := rows.TopicID(topic.Id)
	if before := w.mu.topics[id]; before == nil || before.Version < topic.Version {
		w.mu.topics[id] = topic
	}
	w.mu.waiters = append(w.mu.waiters, waiter{id, answer})
	w.wakeUp()
}

// remove queues the removal of a topic's replicas.
func (w *worker) remove(id rows.TopicID, revision int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.removed == nil {
		w.mu.removed = make(map[rows.TopicID]int64)
	}
	w.mu.removed[id] = revision
	w.wakeUp()
}

func (w *worker) setSilent(silent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.silent = silent
}

func (w *worker) isSilent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.silent
}

func (w *worker) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *worker) run() {
	defer w.leave()
	wait := backoff.New(backoff.Policy{Initial: 10 * time.Millisecond, Max: 2 * time.Second})
	for {
		todo := w.take()
		if todo.empty() {
			select {
			case <-w.ctx.Done():
				return
			case <-w.wake:
			}
			continue
		}
		refused, err := w.tell(todo)
		for _, waiting := range todo.waiters {
			answer := err
			if err == nil && refused[waiting.topic] {
				answer = ErrTopicGone
			}
			waiting.answer <- answer // buffered for one answer of each node
		}
		if err == nil {
			wait.Reset()
			continue
		}
		if w.ctx.Err() != nil {
			return
		}
		w.term.log().Warn("storage node not told what it holds, trying again", "node", w.node, "err", err)
		w.again(todo)
		_ = wait.Wait(w.ctx)
	}
}

func (w *worker) take() pending {
	w.mu.Lock()
	defer w.mu.Unlock()
	todo := w.mu.pending
	w.mu.pending = pending{}
	return todo
}

// again queues what failed: removals by name, and everything that is to be
// there by the picture, so that a topic that was taken back is not among it.
func (w *worker) again(todo pending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.everything = true
	if w.mu.removed == nil {
		w.mu.removed = make(map[rows.TopicID]int64)
	}
	maps.Copy(w.mu.removed, todo.removed)
}

// leave answers whoever still waits.
func (w *worker) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.gone = true
	for _, waiting := range w.mu.waiters {
		waiting.answer <- w.away(errWorkerGone)
	}
	w.mu.waiters = nil
}

func (w *worker) away(cause error) error {
	return peer.ErrNodeAway.WithMessage("storage node %q is away", w.node).With("node", w.node).Because(cause)
}

// tell sends what is pending, but for topics that have been deleted meanwhile.
// Placements come first, since a removal may be of one of them. It returns the
// topics that the node refused because it had been told to remove them: the
// picture that has them is old, and telling the node again would not help.
func (w *worker) tell(todo pending) (refused map[rows.TopicID]bool, err error) {
	var topics []*coordinatorv1.Topic
	for _, t := range todo.topics {
		if !w.term.deleted(t) {
			topics = append(topics, t)
		}
	}
	if todo.everything {
		for _, t := range w.term.held(w.node) {
			if todo.topics[rows.TopicID(t.Id)] == nil && !w.term.deleted(t) {
				topics = append(topics, t)
			}
		}
	}
	refused = make(map[rows.TopicID]bool)
	for _, request := range placements(w.node, topics) {
		var placed *storagev1.PlaceReplicasResponse
		if err := w.call(func(ctx context.Context, replicas storagev1.ReplicaServiceClient) (err error) {
			placed, err = replicas.PlaceReplicas(ctx, request)
			return err
		}); err != nil {
			return nil, err
		}
		for _, b := range placed.RemovedTopicIds {
			if id, ok := rows.ParseTopicID(b); ok {
				refused[id] = true
				w.term.log().Warn("storage node was told to remove a topic that is to be placed", "node", w.node, "topic", id)
			}
		}
	}
	if len(todo.removed) == 0 {
		return refused, nil
	}
	request := &storagev1.RemoveReplicasRequest{}
	ids := slices.Collect(maps.Keys(todo.removed))
	for _, id := range ids {
		request.TopicIds = append(request.TopicIds, id[:])
		request.Revision = max(request.Revision, todo.removed[id])
	}
	err = w.call(func(ctx context.Context, replicas storagev1.ReplicaServiceClient) error {
		_, err := replicas.RemoveReplicas(ctx, request)
		return err
	})
	if err == nil {
		w.term.removedFrom(w.node, ids)
	}
	return refused, err
}

func (w *worker) call(do func(context.Context, storagev1.ReplicaServiceClient) error) error {
	ctx, cancel := context.WithTimeout(w.ctx, w.term.cluster.cfg.CallTimeout)
	defer cancel()
	replicas, err := w.term.cluster.peers.Replicas(ctx, w.node)
	if err == nil {
		err = do(ctx, replicas)
	}
	w.setSilent(silence(err))
	if err == nil || errors.Is(err, peer.ErrNodeAway) {
		return err
	}
	return w.away(err)
}

// silence tells whether a call failed in a way that says nothing of what was asked
// for: the next one would, too.
func silence(err error) bool {
	kind := errs.KindOf(err)
	return err != nil && kind != errs.InvalidArgument && kind != errs.Unimplemented
}
