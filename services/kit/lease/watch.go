package lease

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/confine"
)

// Change is a key's new value, or its end.
type Change struct {
	Key string
	// Value is nil when the key was deleted. It belongs to the receiver.
	Value   []byte
	Deleted bool
	// CreateRevision and ModRevision are etcd's; of a deleted key only
	// ModRevision is set, to the revision that deleted it.
	CreateRevision int64
	ModRevision    int64
}

// Update brings a picture of a prefix to Revision.
type Update struct {
	// Snapshot replaces all that was known; Changes are then all keys.
	Snapshot bool
	// Revision never goes down. Everything up to it has been delivered.
	Revision int64
	// Changes are in etcd's order; a revision is never split over two updates.
	Changes []Change
}

// Watcher follows the keys under a prefix.
type Watcher struct {
	client *clientv3.Client
	prefix string
	log    *slog.Logger

	mu struct {
		sync.Mutex
		revision int64
		// advanced is closed, and replaced, when revision grows.
		advanced chan struct{}
	}
}

// NewWatcher returns a watcher; Run starts it. log may be nil.
func NewWatcher(client *clientv3.Client, prefix string, log *slog.Logger) *Watcher {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{client: client, prefix: prefix, log: log}
	w.mu.advanced = make(chan struct{})
	return w
}

// pageSize is how many keys one read of a snapshot asks for.
const pageSize = 1000

// Run calls apply with a snapshot and then with each change, one call at a
// time, until ctx ends. After an error, and when etcd has compacted the changes
// that are missing, it begins again with a snapshot; after a panic in apply, too.
func (w *Watcher) Run(ctx context.Context, apply func(Update)) error {
	ctx = w.streamContext(ctx)
	wait := backoff.New(backoff.Policy{Initial: 20 * time.Millisecond, Max: time.Second})
	for ctx.Err() == nil {
		err := confine.Attempt(ctx, w.log, func() error {
			return w.follow(ctx, func(u Update) {
				wait.Reset()
				apply(u)
				w.advance(u.Revision)
			})
		})
		if ctx.Err() == nil {
			w.log.Warn("watch of etcd broke, reading all again", "prefix", w.prefix, "err", err)
			_ = wait.Wait(ctx)
		}
	}
	return nil
}

// streamContext is what a watch runs under, and what progress has to be asked
// for under: etcd's client has a stream for each set of metadata. The watcher has
// one of its own, since etcd says nothing of progress while any watch of the
// stream lags, or begins after the newest revision that there is: then it would
// take a change of anything at all to go on. Beside that there is only what makes
// a member say so when it is cut off from the others, instead of letting us wait
// for changes that it does not get.
func (w *Watcher) streamContext(ctx context.Context) context.Context {
	return clientv3.WithRequireLeader(metadata.NewOutgoingContext(ctx, metadata.Pairs(watcherKey, fmt.Sprintf("%p", w))))
}

// watcherKey is the name of the metadata that tell watchers apart.
const watcherKey = "sluice-watcher"

func (w *Watcher) follow(ctx context.Context, deliver func(Update)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	snapshot, err := w.list(ctx)
	if err != nil {
		return err
	}
	deliver(snapshot)
	changes := w.client.Watch(ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithRev(snapshot.Revision+1))
	for resp := range changes {
		if err := resp.Err(); err != nil {
			return fmt.Errorf("watch %s: %w", w.prefix, err)
		}
		if len(resp.Events) == 0 && !resp.IsProgressNotify() {
			continue
		}
		update := Update{Revision: resp.Header.Revision, Changes: make([]Change, 0, len(resp.Events))}
		for _, ev := range resp.Events {
			change := Change{
				Key:         string(ev.Kv.Key),
				Deleted:     ev.Type == clientv3.EventTypeDelete,
				ModRevision: ev.Kv.ModRevision,
			}
			if !change.Deleted {
				change.Value, change.CreateRevision = ev.Kv.Value, ev.Kv.CreateRevision
			}
			update.Changes = append(update.Changes, change)
		}
		if n := len(resp.Events); n > 0 {
			// The header may be ahead of events that are still on their way.
			update.Revision = resp.Events[n-1].Kv.ModRevision
		}
		deliver(update)
	}
	return fmt.Errorf("watch %s: %w", w.prefix, context.Cause(ctx))
}

// list reads all keys as of one revision.
func (w *Watcher) list(ctx context.Context) (Update, error) {
	update := Update{Snapshot: true}
	from, end := w.prefix, clientv3.GetPrefixRangeEnd(w.prefix)
	for {
		opts := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(pageSize)}
		if update.Revision != 0 {
			opts = append(opts, clientv3.WithRev(update.Revision))
		}
		resp, err := w.client.Get(ctx, from, opts...)
		if err != nil {
			return Update{}, fmt.Errorf("list %s: %w", w.prefix, err)
		}
		if update.Revision == 0 {
			update.Revision = resp.Header.Revision
		}
		for _, kv := range resp.Kvs {
			update.Changes = append(update.Changes, Change{
				Key: string(kv.Key), Value: kv.Value,
				CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision,
			})
		}
		if !resp.More {
			return update, nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

func (w *Watcher) advance(revision int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if revision > w.mu.revision {
		w.mu.revision = revision
		close(w.mu.advanced)
		w.mu.advanced = make(chan struct{})
	}
}

// WaitFor waits until everything up to revision has been applied. It returns
// only for revisions that changed the prefix; use Sync for any other.
func (w *Watcher) WaitFor(ctx context.Context, revision int64) error {
	for {
		w.mu.Lock()
		reached, advanced := w.mu.revision >= revision, w.mu.advanced
		w.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for revision %d of %s: %w", revision, w.prefix, ctx.Err())
		case <-advanced:
		}
	}
}

// progressInterval is how long Sync waits before it asks for progress again;
// etcd does not answer while the watch lags.
const progressInterval = 20 * time.Millisecond

// Sync waits until every change that was made before the call has been applied,
// by whomever it was made.
func (w *Watcher) Sync(ctx context.Context) error {
	resp, err := w.client.Get(ctx, w.prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("read the revision of etcd: %w", err)
	}
	for {
		attempt, cancel := context.WithTimeout(ctx, progressInterval)
		err := w.WaitFor(attempt, resp.Header.Revision)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		// The changes may be none of ours; then only etcd can say how far the
		// watch has come.
		if err := w.client.RequestProgress(w.streamContext(ctx)); err != nil {
			return fmt.Errorf("ask etcd for progress: %w", err)
		}
	}
}
