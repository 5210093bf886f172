// Package meta keeps topics in etcd, one row a topic. Its rules, which names
// and configs there may be, hold for whoever asks; its changes are made by the
// elected coordinator only: each carries the leader's election key into the
// transaction, so that a deposed leader's change fails, however late it comes.
//
// A deleted topic's row moves from its name to its id and stays there, marked,
// until every replica is gone; so the name is free at once, and a crash forgets
// no replica.
package meta

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/coordinator/internal/elect"
	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
)

// Store is the topics in etcd. It holds no state.
type Store struct {
	etcd *clientv3.Client
}

// NewStore returns the topics in an etcd.
func NewStore(etcd *clientv3.Client) *Store { return &Store{etcd: etcd} }

// Row is a topic's row and the revision of its last change.
type Row struct {
	*persistv1.TopicRow
	Version int64
}

// ID returns the topic's id.
func (r Row) ID() rows.TopicID { return rows.TopicID(r.Id) }

// Get reads a topic. ErrTopicNotFound.
func (s *Store) Get(ctx context.Context, name string) (Row, error) {
	if checkForm(name) != nil {
		return Row{}, notFound(name) // and no key that leads elsewhere
	}
	resp, err := s.etcd.Get(ctx, rows.TopicKey(name))
	if err != nil {
		return Row{}, noAnswer(ctx, fmt.Errorf("read topic %q: %w", name, err))
	}
	if len(resp.Kvs) == 0 {
		return Row{}, notFound(name)
	}
	return decode(resp.Kvs[0].Value, resp.Kvs[0].ModRevision)
}

// Create writes a new topic's row. ErrTopicExists, ErrNotLeader.
func (s *Store) Create(ctx context.Context, term elect.Term, row *persistv1.TopicRow) (Row, error) {
	key := rows.TopicKey(row.Name)
	value, err := proto.Marshal(row)
	if err != nil {
		return Row{}, fmt.Errorf("encode topic %q: %w", row.Name, err)
	}
	revision, ok, err := s.commit(ctx, term,
		clientv3.Compare(clientv3.CreateRevision(key), "=", 0),
		clientv3.OpPut(key, string(value)))
	if err != nil {
		return Row{}, fmt.Errorf("create topic %q: %w", row.Name, err)
	}
	if !ok {
		return Row{}, ErrTopicExists.WithMessage("topic %q exists", row.Name).With("topic", row.Name)
	}
	return Row{row, revision}, nil
}

// UpdateConfig changes configs, all or none. ErrTopicNotFound,
// ErrInternalTopic, ErrNotLeader.
func (s *Store) UpdateConfig(ctx context.Context, term elect.Term, name string, set map[string]string, unset []string) (Row, error) {
	for {
		row, err := s.Get(ctx, name)
		if err == nil {
			err = refuseInternal(row)
		}
		if err != nil {
			return Row{}, err
		}
		config, err := ApplyConfig(row.Config, set, unset)
		if err != nil {
			return Row{}, err
		}
		next := proto.CloneOf(row.TopicRow)
		next.Config = config
		value, err := proto.Marshal(next)
		if err != nil {
			return Row{}, fmt.Errorf("encode topic %q: %w", name, err)
		}
		key := rows.TopicKey(name)
		revision, ok, err := s.commit(ctx, term,
			clientv3.Compare(clientv3.ModRevision(key), "=", row.Version),
			clientv3.OpPut(key, string(value)))
		if err != nil {
			return Row{}, fmt.Errorf("configure topic %q: %w", name, err)
		}
		if ok {
			return Row{next, revision}, nil
		}
		// Somebody was faster; look again.
	}
}

// Delete marks a topic as being deleted and frees its name. It returns the
// marked row. ErrTopicNotFound, ErrInternalTopic, ErrNotLeader.
func (s *Store) Delete(ctx context.Context, term elect.Term, name string) (Row, error) {
	for {
		row, err := s.Get(ctx, name)
		if err == nil {
			err = refuseInternal(row)
		}
		if err != nil {
			return Row{}, err
		}
		marked, ok, err := s.mark(ctx, term, row)
		if err != nil || ok {
			return marked, err
		}
	}
}

// Withdraw takes a topic back that could not be made, as Delete does. It does
// nothing, and ok is false, when the row has been changed since: somebody has the
// topic, or has deleted it.
func (s *Store) Withdraw(ctx context.Context, term elect.Term, row Row) (marked Row, ok bool, err error) {
	return s.mark(ctx, term, row)
}

func (s *Store) mark(ctx context.Context, term elect.Term, row Row) (marked Row, ok bool, err error) {
	next := proto.CloneOf(row.TopicRow)
	next.Deleting = true
	value, err := proto.Marshal(next)
	if err != nil {
		return Row{}, false, fmt.Errorf("encode topic %q: %w", row.Name, err)
	}
	key := rows.TopicKey(row.Name)
	revision, ok, err := s.commit(ctx, term,
		clientv3.Compare(clientv3.ModRevision(key), "=", row.Version),
		clientv3.OpDelete(key), clientv3.OpPut(rows.DeletingKey(row.ID()), string(value)))
	if err != nil {
		return Row{}, false, fmt.Errorf("delete topic %q: %w", row.Name, err)
	}
	return Row{next, revision}, ok, nil
}

// Forget removes the row of a deleted topic, once no replica is left.
func (s *Store) Forget(ctx context.Context, term elect.Term, id rows.TopicID) error {
	key := rows.DeletingKey(id)
	_, _, err := s.commit(ctx, term, clientv3.Compare(clientv3.CreateRevision(key), ">", 0), clientv3.OpDelete(key))
	if err != nil {
		return fmt.Errorf("forget deleted topic %s: %w", id, err)
	}
	return nil
}

// commit makes a change if the term still leads and the condition holds; ok is
// whether the condition did.
func (s *Store) commit(ctx context.Context, term elect.Term, condition clientv3.Cmp, ops ...clientv3.Op) (revision int64, ok bool, err error) {
	resp, err := s.etcd.Txn(ctx).
		If(term.Guard(), condition).
		Then(ops...).
		Else(clientv3.OpGet(term.Key)).
		Commit()
	if err != nil {
		return 0, false, noAnswer(ctx, err)
	}
	if resp.Succeeded {
		return resp.Header.Revision, true, nil
	}
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) == 0 || kvs[0].CreateRevision != term.Revision {
		return 0, false, ErrNotLeader
	}
	return 0, false, nil
}

// noAnswer keeps a caller's own end of the call apart from etcd's failing.
func noAnswer(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	return ErrNoAnswer.Because(err)
}

func decode(value []byte, version int64) (Row, error) {
	row := &persistv1.TopicRow{}
	if err := proto.Unmarshal(value, row); err != nil {
		return Row{}, fmt.Errorf("decode the row of a topic: %w", err)
	}
	if _, ok := rows.ParseTopicID(row.Id); !ok {
		return Row{}, fmt.Errorf("row of topic %q: id of %d bytes", row.Name, len(row.Id))
	}
	return Row{row, version}, nil
}
