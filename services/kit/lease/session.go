package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sluiceio/sluice/services/kit/backoff"
)

// Config is how a session keeps its lease.
type Config struct {
	// TTL is how long keys outlive the last sign of life of a process that was
	// killed; 0 is 10 s. Shorter frees what it owned sooner, and loses it more
	// often to a pause. Whole seconds; etcd raises what is too short for it.
	TTL time.Duration
	// Identity is a key that only this process registers, such as its node row.
	// A lease to which the key is bound when the session starts belonged to an
	// earlier life of the process and is revoked, so that a restart waits for
	// nothing. Empty: leases of earlier lives run out by themselves.
	Identity string
	// Bar is a key that somebody else writes to keep the process out: while it
	// exists nothing is registered, and Run ends with ErrBarred. Whoever writes it
	// in a transaction that wants Identity to be absent never meets a registered
	// process. Empty: nobody is kept out.
	Bar string
	// Logger may be nil.
	Logger *slog.Logger
}

// ErrBarred means that the process is kept out by Config.Bar.
var ErrBarred = errors.New("registration is barred")

// Session is a process's lease and the keys bound to it. Its methods may be
// called by many goroutines.
type Session struct {
	client *clientv3.Client
	cfg    Config
	// wake tells Run that keys were registered or taken back.
	wake chan struct{}

	mu struct {
		sync.Mutex
		// grant is nil while there is no lease.
		grant *Grant
		// keys are all that shall be there, with the lease under which each was
		// last written; 0 when it has to be written.
		keys map[string]registration
		// removed are keys that have to be deleted.
		removed map[string]bool
		// changed is closed, and replaced, with each change of the fields above.
		changed chan struct{}
	}
}

type registration struct {
	value []byte
	under clientv3.LeaseID
	// version tells a later value of the key from the one that was written.
	version uint64
}

// NewSession returns a session; Run starts it.
func NewSession(client *clientv3.Client, cfg Config) *Session {
	if cfg.TTL == 0 {
		cfg.TTL = 10 * time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Session{client: client, cfg: cfg, wake: make(chan struct{}, 1)}
	s.mu.keys = make(map[string]registration)
	s.mu.removed = make(map[string]bool)
	s.mu.changed = make(chan struct{})
	return s
}

// Register declares that key has this value for as long as the process lives.
// It does not block: the key is written by Run, under the present lease and
// under each later one; Flush waits for it.
func (s *Session) Register(key string, value []byte) {
	s.mu.Lock()
	s.mu.keys[key] = registration{value: value, version: s.mu.keys[key].version + 1}
	delete(s.mu.removed, key)
	s.changedLocked()
	s.mu.Unlock()
	s.wakeUp()
}

// Unregister takes a key back; it is deleted by Run.
func (s *Session) Unregister(key string) {
	s.mu.Lock()
	if _, ok := s.mu.keys[key]; ok {
		delete(s.mu.keys, key)
		s.mu.removed[key] = true
		s.changedLocked()
	}
	s.mu.Unlock()
	s.wakeUp()
}

// Flush waits until every key is written, under a lease that lives, and every
// key that was taken back is deleted.
func (s *Session) Flush(ctx context.Context) error {
	for {
		s.mu.Lock()
		done := s.mu.grant != nil && len(s.mu.removed) == 0
		if done {
			for _, r := range s.mu.keys {
				done = done && r.under == s.mu.grant.ID
			}
		}
		changed := s.mu.changed
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("register with etcd: %w", ctx.Err())
		case <-changed:
		}
	}
}

// Current returns the present grant, or waits for the next.
func (s *Session) Current(ctx context.Context) (*Grant, error) {
	for {
		s.mu.Lock()
		grant, changed := s.mu.grant, s.mu.changed
		s.mu.Unlock()
		if grant != nil {
			return grant, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a lease: %w", ctx.Err())
		case <-changed:
		}
	}
}

// Alive reports whether the session has a lease at this moment.
func (s *Session) Alive() bool {
	s.mu.Lock()
	grant := s.mu.grant
	s.mu.Unlock()
	return grant != nil && grant.Alive()
}

// revokeTimeout limits how long a clean stop waits for etcd to take the lease
// back; if that fails the lease runs out.
const revokeTimeout = 2 * time.Second

// Run takes a lease, keeps it, and takes another whenever it is lost, until ctx
// ends; then it gives the lease back, and with it all keys. ErrBarred.
func (s *Session) Run(ctx context.Context) error {
	wait := backoff.New(backoff.Policy{Initial: 20 * time.Millisecond, Max: time.Second})
	var (
		last   clientv3.LeaseID
		barred error
	)
	for ctx.Err() == nil && barred == nil {
		grant, err := s.begin(ctx, last)
		if errors.Is(err, ErrBarred) {
			barred = err
			break
		}
		if err != nil {
			if ctx.Err() == nil {
				s.cfg.Logger.Warn("no lease from etcd, trying again", "err", err)
			}
			_ = wait.Wait(ctx)
			continue
		}
		wait.Reset()
		last = grant.ID
		s.setGrant(grant)
		err = s.keep(ctx, grant)
		s.setGrant(nil)
		grant.end()
		if errors.Is(err, ErrBarred) {
			barred = err
		} else if ctx.Err() == nil {
			s.cfg.Logger.Warn("lease lost, taking another", "lease", fmt.Sprintf("%x", grant.ID), "err", err)
		}
	}
	if last != 0 {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
		defer cancel()
		if err := s.revoke(stop, last); err != nil {
			s.cfg.Logger.Warn("lease not given back, it will run out", "err", err)
		}
	}
	return barred
}

// begin revokes what is left of earlier leases and takes a new one.
func (s *Session) begin(ctx context.Context, last clientv3.LeaseID) (*Grant, error) {
	if last != 0 {
		// What hung on the lost lease frees itself now and not a TTL later.
		if err := s.revoke(ctx, last); err != nil {
			return nil, err
		}
	} else if s.cfg.Identity != "" {
		resp, err := s.client.Get(ctx, s.cfg.Identity)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", s.cfg.Identity, err)
		}
		for _, kv := range resp.Kvs {
			if kv.Lease == 0 {
				continue
			}
			if err := s.revoke(ctx, clientv3.LeaseID(kv.Lease)); err != nil {
				return nil, err
			}
		}
	}
	if s.cfg.Bar != "" {
		resp, err := s.client.Get(ctx, s.cfg.Bar, clientv3.WithCountOnly())
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", s.cfg.Bar, err)
		}
		if resp.Count > 0 {
			return nil, s.barred()
		}
	}
	asked := time.Now()
	resp, err := s.client.Grant(ctx, max(1, int64((s.cfg.TTL+time.Second-1)/time.Second)))
	if err != nil {
		return nil, fmt.Errorf("ask for a lease: %w", err)
	}
	return newGrant(resp.ID, asked, time.Duration(resp.TTL)*time.Second), nil
}

func (s *Session) revoke(ctx context.Context, id clientv3.LeaseID) error {
	_, err := s.client.Revoke(ctx, id)
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return fmt.Errorf("revoke lease %x: %w", id, err)
	}
	return nil
}

// keep writes keys and renews the lease until it is lost or ctx ends.
func (s *Session) keep(ctx context.Context, g *Grant) error {
	every := g.remaining() / 3
	next := time.NewTimer(every)
	defer next.Stop()
	retry := backoff.New(backoff.Policy{Initial: 10 * time.Millisecond, Max: every})
	for {
		switch err := s.write(ctx, g, every); {
		case err == nil:
			retry.Reset()
		case errors.Is(err, rpctypes.ErrLeaseNotFound), errors.Is(err, ErrBarred):
			return err
		case ctx.Err() == nil:
			s.cfg.Logger.Warn("keys not written, trying again", "err", err)
			time.AfterFunc(retry.Next(), s.wakeUp)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
			continue
		case <-next.C:
		}
		asked := time.Now()
		attempt, cancel := context.WithTimeout(ctx, min(every, g.remaining()))
		resp, err := s.client.KeepAliveOnce(attempt, g.ID)
		cancel()
		switch {
		case err == nil:
			g.renewed(asked, time.Duration(resp.TTL)*time.Second)
			next.Reset(every)
		case errors.Is(err, rpctypes.ErrLeaseNotFound), g.remaining() <= 0:
			return err
		default:
			next.Reset(min(retry.Next(), g.remaining()))
		}
	}
}

// write brings the keys in etcd to what is registered.
func (s *Session) write(ctx context.Context, g *Grant, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		key, reg, removed := s.pending(g)
		switch {
		case key == "":
			return nil
		case removed:
			if _, err := s.client.Delete(ctx, key); err != nil {
				return fmt.Errorf("delete %s: %w", key, err)
			}
		default:
			if err := s.put(ctx, g, key, reg.value); err != nil {
				return fmt.Errorf("write %s: %w", key, err)
			}
		}
		s.written(g, key, reg, removed)
	}
}

// put writes a key unless the process is kept out.
func (s *Session) put(ctx context.Context, g *Grant, key string, value []byte) error {
	put := clientv3.OpPut(key, string(value), clientv3.WithLease(g.ID))
	if s.cfg.Bar == "" {
		_, err := s.client.Do(ctx, put)
		return err
	}
	resp, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(s.cfg.Bar), "=", 0)).Then(put).Commit()
	if err == nil && !resp.Succeeded {
		return s.barred()
	}
	return err
}

func (s *Session) barred() error { return fmt.Errorf("%w by %s", ErrBarred, s.cfg.Bar) }

// pending returns one key that has to be written or deleted, or "".
func (s *Session) pending(g *Grant) (key string, reg registration, removed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.mu.removed {
		return key, registration{}, true
	}
	for key, reg := range s.mu.keys {
		if reg.under != g.ID {
			return key, reg, false
		}
	}
	return "", registration{}, false
}

func (s *Session) written(g *Grant, key string, reg registration, removed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, ok := s.mu.keys[key]
	switch {
	case removed && !ok:
		delete(s.mu.removed, key)
	case !removed && ok && now.version == reg.version:
		now.under = g.ID
		s.mu.keys[key] = now
	}
	s.changedLocked()
}

func (s *Session) setGrant(g *Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.grant = g
	s.changedLocked()
}

func (s *Session) changedLocked() {
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

func (s *Session) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
