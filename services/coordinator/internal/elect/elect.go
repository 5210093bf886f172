// Package elect chooses one coordinator that makes changes. The election is
// etcd's own recipe on the process's lease: the oldest key under the prefix
// leads. A Term is one leader's time; its key's revision guards every change
// that the leader makes, so what a deposed leader still does has no effect.
package elect

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/sluiceio/sluice/services/coordinator/internal/rows"
	"github.com/sluiceio/sluice/services/kit/backoff"
	"github.com/sluiceio/sluice/services/kit/confine"
	"github.com/sluiceio/sluice/services/kit/lease"
)

// Term is the time in which one coordinator leads.
type Term struct {
	// Key is the leader's key in the election, Revision its create revision;
	// both together are used once.
	Key      string
	Revision int64
}

// Guard is the condition that the term still leads.
func (t Term) Guard() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(t.Key), "=", t.Revision)
}

// Elector takes part in the election for as long as the process lives.
type Elector struct {
	etcd    *clientv3.Client
	session *lease.Session
	node    string
	log     *slog.Logger
}

// New returns an elector of a node; Run starts it.
func New(etcd *clientv3.Client, session *lease.Session, node string, log *slog.Logger) *Elector {
	return &Elector{etcd: etcd, session: session, node: node, log: log}
}

// resignTimeout limits how long a leader that stops waits for etcd; if that
// fails its lease ends the term.
const resignTimeout = 2 * time.Second

// Run stands in one election after the other. Whenever it wins it calls lead,
// whose context ends with the term; lead may return earlier, which ends the
// term too.
func (e *Elector) Run(ctx context.Context, lead func(context.Context, Term) error) error {
	wait := backoff.New(backoff.Policy{Initial: 20 * time.Millisecond, Max: time.Second})
	for ctx.Err() == nil {
		err := confine.Attempt(ctx, e.log, func() error {
			return e.stand(ctx, func(ctx context.Context, t Term) error {
				wait.Reset()
				return lead(ctx, t)
			})
		})
		if ctx.Err() == nil {
			if err != nil {
				e.log.Warn("election lost or given up, standing again", "err", err)
			}
			_ = wait.Wait(ctx)
		}
	}
	return nil
}

func (e *Elector) stand(ctx context.Context, lead func(context.Context, Term) error) error {
	grant, err := e.session.Current(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watched := confine.Async(func() error {
		select {
		case <-grant.Lost():
			cancel(fmt.Errorf("lease %x is lost", grant.ID))
		case <-ctx.Done():
		}
		return nil
	})
	defer func() {
		cancel(nil)
		<-watched
	}()

	session, err := concurrency.NewSession(e.etcd, concurrency.WithLease(grant.ID), concurrency.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("begin an election: %w", err)
	}
	defer session.Orphan() // the lease is the process's
	election := concurrency.NewElection(session, rows.Election)
	if err := election.Campaign(ctx, e.node); err != nil {
		return fmt.Errorf("stand for election: %w", err)
	}
	defer func() {
		resign, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
		defer cancel()
		if err := election.Resign(resign); err != nil {
			e.log.Warn("not resigned, the lease will end the term", "err", err)
		}
	}()
	term := Term{Key: election.Key(), Revision: election.Rev()}
	e.log.Info("elected", "node", e.node, "revision", term.Revision)
	return lead(ctx, term)
}
