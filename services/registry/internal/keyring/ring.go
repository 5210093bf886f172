// Package keyring keeps the API keys of the cluster: in etcd, a row a key under
// /sluice/keys/, and in memory by the hash of their secrets, following etcd.
//
// Whoever asks a ring gets what etcd had a moment ago. A revocation is over only
// when nobody acts on less: every registry has applied it, or has lost its lease
// and so refuses to answer, and every gateway that remembers principals has
// forgotten the key, or its permission to remember has run out (see Watches).
package keyring

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/lease"
	"github.com/sluiceio/sluice/services/registry/internal/key"
)

// rowPrefix is where the rows stand in etcd. It must not change.
const rowPrefix = "/sluice/keys/"

// What callers can act on.
var (
	ErrUnauthenticated = errs.New(errs.Unauthenticated, "UNAUTHENTICATED", "the key is not known")
	ErrUnknownKey      = errs.New(errs.NotFound, "KEY_NOT_FOUND", "the key does not exist")
	// ErrBehind is that the ring cannot say for sure which keys are valid.
	ErrBehind = errs.New(errs.Unavailable, "KEYS_UNKNOWN", "the keys cannot be checked just now")
	errEtcd   = errs.New(errs.Unavailable, "ETCD_UNAVAILABLE", "the keys cannot be changed just now")
)

// Config is how a ring is set up.
type Config struct {
	Etcd *clientv3.Client
	// Alive says whether the process is still in touch with etcd. A ring that is
	// not may have missed a revocation, and answers nothing.
	Alive  func() bool
	Logger *slog.Logger
	// Lease is how long gateways may remember principals; see Watches.
	Lease time.Duration
	// Revoked is called for each key that is no more.
	Revoked func(id string)
}

// Ring is the keys of the cluster. Its methods may be called by many goroutines.
type Ring struct {
	cfg     Config
	watcher *lease.Watcher
	watches *Watches
	// Closed when the rows have been read once.
	known chan struct{}

	mu struct {
		sync.RWMutex
		byID map[string]*persistv1.KeyRow
		// Disabled keys are not in it.
		byHash map[key.Hash]*persistv1.KeyRow
	}
}

// New returns a ring that knows nothing before Run.
func New(cfg Config) *Ring {
	r := &Ring{
		cfg:     cfg,
		watcher: lease.NewWatcher(cfg.Etcd, rowPrefix, cfg.Logger),
		watches: newWatches(cfg.Lease),
		known:   make(chan struct{}),
	}
	r.mu.byID = make(map[string]*persistv1.KeyRow)
	r.mu.byHash = make(map[key.Hash]*persistv1.KeyRow)
	return r
}

// Run follows etcd until ctx ends.
func (r *Ring) Run(ctx context.Context) error { return r.watcher.Run(ctx, r.apply) }

// Known is closed once the rows have been read.
func (r *Ring) Known() <-chan struct{} { return r.known }

// Watches are those who remember what Authenticate answered.
func (r *Ring) Watches() *Watches { return r.watches }

// Authenticate returns the key that has a secret. ErrUnauthenticated, the same
// for a key that never was and one that was revoked. The row must not be changed.
func (r *Ring) Authenticate(secret string) (*persistv1.KeyRow, error) {
	hash := key.HashOf(secret)
	r.mu.RLock()
	row := r.mu.byHash[hash]
	r.mu.RUnlock()
	if !r.Current() {
		return nil, ErrBehind
	}
	// The map has compared hashes, of which nobody can choose a part. This
	// comparison takes as long whatever they are.
	var have key.Hash
	copy(have[:], row.GetSecretSha256())
	if subtle.ConstantTimeCompare(have[:], hash[:]) != 1 || row == nil {
		return nil, ErrUnauthenticated
	}
	return row, nil
}

// Current says whether the ring can be relied on at this moment.
func (r *Ring) Current() bool {
	select {
	case <-r.known:
		return r.cfg.Alive()
	default:
		return false
	}
}

// Key returns a key by its id. ErrUnknownKey when it is absent or revoked.
func (r *Ring) Key(id string) (*persistv1.KeyRow, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	row := r.mu.byID[id]
	if row == nil || row.GetDisabled() {
		return nil, ErrUnknownKey
	}
	return row, nil
}

// List returns all keys, the oldest first.
func (r *Ring) List() []*persistv1.KeyRow {
	r.mu.RLock()
	rows := make([]*persistv1.KeyRow, 0, len(r.mu.byID))
	for _, row := range r.mu.byID {
		rows = append(rows, row)
	}
	r.mu.RUnlock()
	slices.SortFunc(rows, func(a, b *persistv1.KeyRow) int {
		if a.GetCreatedAtMs() != b.GetCreatedAtMs() {
			return int(max(min(a.GetCreatedAtMs()-b.GetCreatedAtMs(), 1), -1))
		}
		return strings.Compare(a.GetKeyId(), b.GetKeyId())
	})
	return rows
}

// Sync waits until the ring has all changes that were made before.
func (r *Ring) Sync(ctx context.Context) error { return r.watcher.Sync(ctx) }

// WaitFor waits until the ring has a revision that Create or Revoke returned.
func (r *Ring) WaitFor(ctx context.Context, revision int64) error {
	return r.watcher.WaitFor(ctx, revision)
}

// Create writes a new key and returns the revision that has it.
func (r *Ring) Create(ctx context.Context, row *persistv1.KeyRow) (revision int64, err error) {
	value, err := proto.Marshal(row)
	if err != nil {
		return 0, fmt.Errorf("row of key %s: %w", row.GetKeyId(), err)
	}
	at := rowPrefix + row.GetKeyId()
	resp, err := r.cfg.Etcd.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(at), "=", 0)).
		Then(clientv3.OpPut(at, string(value))).Commit()
	if err != nil {
		return 0, errEtcd.Because(fmt.Errorf("write key %s: %w", row.GetKeyId(), err))
	}
	if !resp.Succeeded {
		return 0, errs.New(errs.Internal, "KEY_ID_TAKEN", "key id %s is taken", row.GetKeyId())
	}
	return resp.Header.Revision, nil
}

// CreateFirst writes a key if there is none, and says whether it did; the ring
// then has it. Of several processes that try at once, one does.
func (r *Ring) CreateFirst(ctx context.Context, row *persistv1.KeyRow) (bool, error) {
	value, err := proto.Marshal(row)
	if err != nil {
		return false, fmt.Errorf("row of key %s: %w", row.GetKeyId(), err)
	}
	resp, err := r.cfg.Etcd.Txn(ctx).
		// Of every key under the prefix; true when there is none.
		If(clientv3.Compare(clientv3.CreateRevision(rowPrefix), "=", 0).WithPrefix()).
		Then(clientv3.OpPut(rowPrefix+row.GetKeyId(), string(value))).Commit()
	if err != nil {
		return false, fmt.Errorf("write the first key: %w", err)
	}
	if !resp.Succeeded {
		return false, nil
	}
	return true, r.watcher.WaitFor(ctx, resp.Header.Revision)
}

// Revoke disables a key and returns the revision that has it so. ErrUnknownKey.
func (r *Ring) Revoke(ctx context.Context, id string) (revision int64, err error) {
	at := rowPrefix + id
	for {
		got, err := r.cfg.Etcd.Get(ctx, at)
		if err != nil {
			return 0, errEtcd.Because(fmt.Errorf("read key %s: %w", id, err))
		}
		if len(got.Kvs) == 0 {
			return 0, ErrUnknownKey.WithMessage("there is no key %q", id)
		}
		row := &persistv1.KeyRow{}
		if err := proto.Unmarshal(got.Kvs[0].Value, row); err != nil {
			return 0, fmt.Errorf("row of key %s cannot be read: %w", id, err)
		}
		if row.GetDisabled() {
			return got.Kvs[0].ModRevision, nil
		}
		row.Disabled = true
		value, err := proto.Marshal(row)
		if err != nil {
			return 0, fmt.Errorf("row of key %s: %w", id, err)
		}
		resp, err := r.cfg.Etcd.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(at), "=", got.Kvs[0].ModRevision)).
			Then(clientv3.OpPut(at, string(value))).Commit()
		if err != nil {
			return 0, errEtcd.Because(fmt.Errorf("revoke key %s: %w", id, err))
		}
		if resp.Succeeded {
			return resp.Header.Revision, nil
		}
	}
}

// Confirm waits until the ring has a revision and no watcher remembers what was
// revoked by it.
func (r *Ring) Confirm(ctx context.Context, revision int64) error {
	if err := r.watcher.WaitFor(ctx, revision); err != nil {
		return err
	}
	return r.watches.Await(ctx)
}

// apply brings the ring to an update. What is no more is gone from the ring
// before any watcher is told, so a watcher that then asks finds it gone.
func (r *Ring) apply(u lease.Update) {
	if u.Snapshot {
		r.replace(u)
		return
	}
	revoked := r.change(u)
	if len(revoked) > 0 {
		r.watches.revoke(revoked)
	}
	for _, id := range revoked {
		r.cfg.Revoked(id)
	}
}

// change applies changes and returns the ids of keys that are not what they were.
func (r *Ring) change(u lease.Update) (revoked []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, change := range u.Changes {
		id := strings.TrimPrefix(change.Key, rowPrefix)
		existed := r.removeLocked(id)
		row, err := readRow(change)
		if err != nil && !errors.Is(err, errDeleted) {
			r.cfg.Logger.Error("row of a key cannot be read: the key is not valid", "key_id", id, "error", err)
		}
		if err == nil {
			r.addLocked(row)
		}
		if existed || err != nil {
			revoked = append(revoked, id)
		}
	}
	return revoked
}

func (r *Ring) replace(u lease.Update) {
	r.replaceRows(u)
	r.watches.revoke(nil)
	select {
	case <-r.known:
	default:
		close(r.known)
	}
}

func (r *Ring) replaceRows(u lease.Update) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.mu.byID)
	clear(r.mu.byHash)
	for _, change := range u.Changes {
		row, err := readRow(change)
		if err != nil {
			r.cfg.Logger.Error("row of a key cannot be read: the key is not valid", "key", change.Key, "error", err)
			continue
		}
		r.addLocked(row)
	}
}

func (r *Ring) addLocked(row *persistv1.KeyRow) {
	r.mu.byID[row.GetKeyId()] = row
	if !row.GetDisabled() {
		r.mu.byHash[key.Hash(row.GetSecretSha256())] = row
	}
}

func (r *Ring) removeLocked(id string) (existed bool) {
	row := r.mu.byID[id]
	if row == nil {
		return false
	}
	delete(r.mu.byID, id)
	delete(r.mu.byHash, key.Hash(row.GetSecretSha256()))
	return true
}

var errDeleted = errors.New("the row was deleted")

func readRow(change lease.Change) (*persistv1.KeyRow, error) {
	if change.Deleted {
		return nil, errDeleted
	}
	row := &persistv1.KeyRow{}
	if err := proto.Unmarshal(change.Value, row); err != nil {
		return nil, err
	}
	if n := len(row.GetSecretSha256()); n != len(key.Hash{}) {
		return nil, fmt.Errorf("the hash has %d bytes, expected %d", n, len(key.Hash{}))
	}
	if id := strings.TrimPrefix(change.Key, rowPrefix); row.GetKeyId() != id {
		return nil, fmt.Errorf("the row of %s stands under %s", row.GetKeyId(), id)
	}
	return row, nil
}
