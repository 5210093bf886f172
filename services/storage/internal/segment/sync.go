package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/sluiceio/sluice/services/kit/vfs"
)

// syncs makes what a Writer appended durable, for the writer and for those who
// run a Syncing of it meanwhile.
type syncs struct {
	f vfs.File
	// appended is how far batches are written, durable how far they are known to
	// be durable: durable <= appended. The writer raises appended.
	appended, durable atomic.Int64

	// mu lets one sync run at a time. An error is told once for each open file:
	// of two syncs side by side the other would call durable what is lost.
	mu sync.Mutex
	// failed is the error of a sync, or that of one that can be no more. What the
	// file holds is not known after it, whatever a later sync may say. Set under mu.
	failed atomic.Pointer[error]
}

// to makes the bytes before end durable, and maybe more.
func (s *syncs) to(end int64) error {
	if ended, err := s.ended(end); ended {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ended, err := s.ended(end); ended {
		return err
	}
	appended := s.appended.Load()
	if err := s.f.Datasync(); err != nil {
		return s.fail(err)
	}
	s.durable.Store(appended)
	return nil
}

// ended tells whether nothing is left to do for the bytes before end. Those that
// were durable before a failure are so after it.
func (s *syncs) ended(end int64) (bool, error) {
	if s.durable.Load() >= end {
		return true, nil
	}
	if failed := s.failed.Load(); failed != nil {
		return true, *failed
	}
	return false, nil
}

func (s *syncs) fail(err error) error {
	err = fmt.Errorf("%w: segment: %w", ErrSync, err)
	s.failed.CompareAndSwap(nil, &err)
	return err
}

// close closes the file once no sync runs. None begins after it. It returns the
// error of one that has failed, which its owner may not have seen.
func (s *syncs) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed error
	if known := s.failed.Load(); known != nil {
		failed = *known
	}
	_ = s.fail(fs.ErrClosed)
	return errors.Join(failed, closing(s.f))
}

// Syncing is the sync of all that a Writer had appended when it was made. It may
// run beside the writer, which goes on appending.
type Syncing struct {
	syncs *syncs
	end   int64
}

// Run returns when that is durable: after a sync of its own, or of another's that
// began late enough. It fails as the writer's Sync does. Any goroutine may call
// it, and more than one.
func (s Syncing) Run() error { return s.syncs.to(s.end) }

// Ended tells without waiting whether Run would return at once, and its error.
func (s Syncing) Ended() (bool, error) { return s.syncs.ended(s.end) }
