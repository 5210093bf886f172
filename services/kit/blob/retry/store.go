package retry

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/sluiceio/sluice/services/kit/blob"
)

// Store tries the operations of another store again.
type Store struct {
	store  blob.Store
	policy Policy
}

var _ blob.Store = (*Store)(nil)

// New returns store with a policy.
func New(store blob.Store, policy Policy) *Store { return &Store{store, policy} }

// Put stores an object. A try whose answer was lost is made again: it writes the
// same bytes.
func (s *Store) Put(ctx context.Context, name string, src io.ReaderAt, size int64, crc32c uint32) error {
	return s.policy.Do(ctx, size, func(ctx context.Context) error {
		return s.store.Put(ctx, name, src, size, crc32c)
	})
}

// ReadAt reads from an object.
func (s *Store) ReadAt(ctx context.Context, name string, p []byte, off int64) (n int, err error) {
	err = s.policy.Do(ctx, int64(len(p)), func(ctx context.Context) (err error) {
		n, err = s.store.ReadAt(ctx, name, p, off)
		return err
	})
	return n, err
}

// Delete removes an object.
func (s *Store) Delete(ctx context.Context, name string) error {
	return s.policy.Do(ctx, 0, func(ctx context.Context) error { return s.store.Delete(ctx, name) })
}

// List lists objects. A list that breaks off is begun again, and what was yielded
// before is left out. Its time is that between two objects, without what the
// caller does with them.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		last, stopped := "", false
		limit := s.policy.Timeout(0)
		err := s.policy.repeat(ctx, func() error {
			within, cancel := context.WithCancel(ctx)
			defer cancel()
			timer := time.AfterFunc(limit, cancel)
			defer timer.Stop()
			for info, err := range s.store.List(within, prefix) {
				if err != nil {
					if ctx.Err() == nil && within.Err() != nil {
						return &slow{limit, err}
					}
					return err
				}
				timer.Stop()
				if info.Name > last {
					last = info.Name
					if stopped = !yield(info, nil); stopped {
						return nil
					}
				}
				timer.Reset(limit)
			}
			return nil
		})
		if err != nil {
			yield(blob.Info{}, err)
		}
	}
}
