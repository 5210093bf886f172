package keyring

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sluiceio/sluice/services/kit/errs"
)

// ErrUnknownWatch is that an acknowledgement names no watch: it has to begin
// anew.
var ErrUnknownWatch = errs.New(errs.NotFound, "UNKNOWN_WATCH", "the watch is not known here")

// maxRevoked is how many keys are named to a watcher; instead of more it is told
// to forget everything.
const maxRevoked = 1000

// Watches are the gateways that remember principals, and what they have been told
// to forget.
//
// A watcher may remember for lease after it *sent* an acknowledgement, and here
// the lease counts from when that *came*, which is later: so when a lease is over
// here, it is over there. A watch whose stream has ended stays until then.
type Watches struct {
	lease time.Duration

	mu struct {
		sync.Mutex
		byID map[string]*Watch
		// changed is closed, and replaced, with each acknowledgement.
		changed chan struct{}
	}
}

// A Watch is one watcher.
type Watch struct {
	ID      string
	watches *Watches
	// wake has an element when there is something to tell.
	wake chan struct{}

	// Under watches.mu.

	reset   bool
	revoked []string
	// Of the last thing to forget; acked <= sequence.
	sequence, acked int64
	// Until when the watcher may remember; zero before its first
	// acknowledgement.
	until time.Time
	ended bool
}

// Notice is what a watcher is told.
type Notice struct {
	Reset    bool
	Revoked  []string
	Sequence int64
}

func newWatches(lease time.Duration) *Watches {
	w := &Watches{lease: lease}
	w.mu.byID = make(map[string]*Watch)
	w.mu.changed = make(chan struct{})
	return w
}

// Lease is how long a watcher may remember principals after it acknowledged.
func (w *Watches) Lease() time.Duration { return w.lease }

// Begin adds a watch. Its first notice says to forget everything.
func (w *Watches) Begin() *Watch {
	watch := &Watch{ID: uuid.NewString(), watches: w, wake: make(chan struct{}, 1), reset: true, sequence: 1}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetOverLocked(time.Now())
	w.mu.byID[watch.ID] = watch
	return watch
}

// Wake gives an element when there is something to tell.
func (h *Watch) Wake() <-chan struct{} { return h.wake }

// Next takes what there is to tell, which may be nothing.
func (h *Watch) Next() Notice {
	h.watches.mu.Lock()
	defer h.watches.mu.Unlock()
	n := Notice{Reset: h.reset, Revoked: h.revoked, Sequence: h.sequence}
	h.reset, h.revoked = false, nil
	return n
}

// End says that nothing more can be told. What the watcher remembers it may
// remember until its lease is over.
func (h *Watch) End() {
	h.watches.mu.Lock()
	defer h.watches.mu.Unlock()
	h.ended = true
	h.watches.forgetOverLocked(time.Now())
}

// Ack notes that a watcher has forgotten what it was told, up to a sequence.
func (w *Watches) Ack(id string, sequence int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	watch := w.mu.byID[id]
	if watch == nil || watch.ended {
		return ErrUnknownWatch
	}
	watch.acked = max(watch.acked, min(sequence, watch.sequence))
	watch.until = time.Now().Add(w.lease)
	close(w.mu.changed)
	w.mu.changed = make(chan struct{})
	return nil
}

// revoke tells all watchers to forget keys; nil is everything.
func (w *Watches) revoke(keys []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watch := range w.mu.byID {
		watch.sequence++
		watch.revoked = append(watch.revoked, keys...)
		if keys == nil || len(watch.revoked) > maxRevoked {
			watch.reset, watch.revoked = true, nil
		}
		select {
		case watch.wake <- struct{}{}:
		default:
		}
	}
}

// Await waits until no watcher remembers what it was told to forget before.
func (w *Watches) Await(ctx context.Context) error {
	type debt struct {
		watch    *Watch
		sequence int64
	}
	w.mu.Lock()
	var debts []debt
	for _, watch := range w.mu.byID {
		debts = append(debts, debt{watch, watch.sequence})
	}
	w.mu.Unlock()
	for {
		now := time.Now()
		var next time.Time
		w.mu.Lock()
		changed := w.mu.changed
		for _, d := range debts {
			if d.watch.acked < d.sequence && d.watch.until.After(now) && (next.IsZero() || d.watch.until.Before(next)) {
				next = d.watch.until
			}
		}
		w.mu.Unlock()
		if next.IsZero() {
			return nil
		}
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

// forgetOverLocked drops watches that have ended and remember nothing.
func (w *Watches) forgetOverLocked(now time.Time) {
	for id, watch := range w.mu.byID {
		if watch.ended && !watch.until.After(now) {
			delete(w.mu.byID, id)
		}
	}
}
