// Package catalog keeps the schemas of the cluster: in etcd, under
// /sluice/schemas/, and in memory, following etcd.
//
//	state                         the highest id; written with every change
//	subject/<subject>             highest version, hidden versions, level, mode
//	version/<subject>/<version>   one schema
//
// Every registry may change schemas, without an election: a change is decided on
// a picture, and its transaction asks that the state row has not been written
// since. If it has, the change is decided anew. So all changes of the cluster
// have an order, each was right when it was made, and an id that was given out
// once is never given out again, whatever was deleted or has restarted since.
package catalog

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/errs"
	"github.com/sluiceio/sluice/services/kit/lease"
)

// Where the rows stand in etcd. These must not change.
const (
	prefix        = "/sluice/schemas/"
	stateKey      = prefix + "state"
	subjectPrefix = prefix + "subject/"
	versionPrefix = prefix + "version/"
)

func subjectKey(subject string) string { return subjectPrefix + url.PathEscape(subject) }

func versionKey(subject string, version int32) string {
	return versionPrefix + url.PathEscape(subject) + "/" + strconv.Itoa(int(version))
}

var errEtcd = errs.New(errs.Unavailable, "ETCD_UNAVAILABLE", "the schemas cannot be reached just now")

// Catalog is the schemas of the cluster. Its methods may be called by many
// goroutines. Rows that they return must not be changed.
type Catalog struct {
	etcd    *clientv3.Client
	logger  *slog.Logger
	watcher *lease.Watcher
	// Closed when the rows have been read once.
	known chan struct{}
	// How long all texts may be together.
	maxBytes int

	// Only apply, which is called by one goroutine, uses these.

	state    *persistv1.SchemaStateRow
	revision int64
	subjects map[string]*persistv1.SchemaSubjectRow
	versions map[string]*persistv1.SchemaRow

	picture atomic.Pointer[picture]
}

// New returns a catalog that knows nothing before Run.
func New(etcd *clientv3.Client, logger *slog.Logger) *Catalog {
	c := &Catalog{
		etcd:     etcd,
		logger:   logger,
		watcher:  lease.NewWatcher(etcd, prefix, logger),
		known:    make(chan struct{}),
		maxBytes: maxBytes,
	}
	c.picture.Store(&picture{})
	return c
}

// Run follows etcd until ctx ends.
func (c *Catalog) Run(ctx context.Context) error { return c.watcher.Run(ctx, c.apply) }

// Known is closed once the rows have been read.
func (c *Catalog) Known() <-chan struct{} { return c.known }

// fresh returns a picture that has all changes that were made before the call.
func (c *Catalog) fresh(ctx context.Context) (*picture, error) {
	if err := c.watcher.Sync(ctx); err != nil {
		return nil, errEtcd.Because(err)
	}
	return c.picture.Load(), nil
}

// A change is what a transaction writes beside the state row.
type change struct {
	lastID int32
	ops    []clientv3.Op
}

// commit makes a change that was decided on a picture, and waits until it is in
// the picture. It says no when another change came before.
func (c *Catalog) commit(ctx context.Context, on *picture, ch change) (bool, error) {
	state, err := put(stateKey, &persistv1.SchemaStateRow{LastId: ch.lastID})
	if err != nil {
		return false, err
	}
	resp, err := c.etcd.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(stateKey), "=", on.revision)).
		Then(append(ch.ops, state)...).Commit()
	if err != nil {
		return false, errEtcd.Because(fmt.Errorf("change schemas: %w", err))
	}
	if !resp.Succeeded {
		return false, nil
	}
	if err := c.watcher.WaitFor(ctx, resp.Header.Revision); err != nil {
		return false, errEtcd.Because(err)
	}
	return true, nil
}

func put(key string, row proto.Message) (clientv3.Op, error) {
	value, err := proto.Marshal(row)
	if err != nil {
		return clientv3.Op{}, fmt.Errorf("row %s: %w", key, err)
	}
	return clientv3.OpPut(key, string(value)), nil
}

// apply brings the picture to an update.
func (c *Catalog) apply(u lease.Update) {
	if u.Snapshot {
		c.state, c.revision = &persistv1.SchemaStateRow{}, 0
		c.subjects = make(map[string]*persistv1.SchemaSubjectRow)
		c.versions = make(map[string]*persistv1.SchemaRow)
	}
	for _, change := range u.Changes {
		if err := c.applyOne(change); err != nil {
			c.logger.Error("row of a schema cannot be read, it is left out", "key", change.Key, "error", err)
		}
	}
	c.picture.Store(pictureOf(c.revision, c.state, c.subjects, c.versions))
	select {
	case <-c.known:
	default:
		close(c.known)
	}
}

func (c *Catalog) applyOne(change lease.Change) error {
	switch {
	case change.Key == stateKey:
		c.revision = change.ModRevision
		if change.Deleted {
			c.state, c.revision = &persistv1.SchemaStateRow{}, 0
			return nil
		}
		row := &persistv1.SchemaStateRow{}
		c.state = row
		return proto.Unmarshal(change.Value, row)
	case strings.HasPrefix(change.Key, subjectPrefix):
		delete(c.subjects, change.Key)
		if change.Deleted {
			return nil
		}
		row := &persistv1.SchemaSubjectRow{}
		if err := proto.Unmarshal(change.Value, row); err != nil {
			return err
		}
		c.subjects[change.Key] = row
		return nil
	case strings.HasPrefix(change.Key, versionPrefix):
		delete(c.versions, change.Key)
		if change.Deleted {
			return nil
		}
		row := &persistv1.SchemaRow{}
		if err := proto.Unmarshal(change.Value, row); err != nil {
			return err
		}
		c.versions[change.Key] = row
		return nil
	default:
		return fmt.Errorf("no row of this version")
	}
}
