// Package faultblob makes any blob.Store fail, dawdle or lie where a test says.
package faultblob

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync/atomic"

	"github.com/sluiceio/sluice/services/kit/blob"
)

// Op is an operation of a store.
type Op string

// The operations, one for each method.
const (
	Put    Op = "put"
	ReadAt Op = "read"
	Delete Op = "delete"
	List   Op = "list"
)

// Fault is what goes wrong with an operation. The zero value is nothing.
type Fault struct {
	// Wait holds the operation up until it is closed, or until the context of the
	// operation ends, which then fails with its error.
	Wait <-chan struct{}
	// Err is what the operation returns. Unless one of the next two says
	// otherwise it is not done.
	Err error
	// Lost has the operation done, and its answer lost.
	Lost bool
	// Half has it die half way: a Put has read half of its bytes and stores
	// nothing, a read has filled half of the buffer, a list has yielded half of the
	// objects.
	Half bool
}

// Hook is asked before each operation, with the name or the prefix that it is
// about. It may be called by several goroutines at once.
type Hook func(op Op, name string) Fault

// Nth is a hook for the n-th operation of a kind, counted from 1.
func Nth(op Op, n int64, fault Fault) Hook {
	var count atomic.Int64
	return func(o Op, _ string) Fault {
		if o == op && count.Add(1) == n {
			return fault
		}
		return Fault{}
	}
}

// First is a hook for the first n operations of a kind.
func First(op Op, n int64, fault Fault) Hook {
	var count atomic.Int64
	return func(o Op, _ string) Fault {
		if o == op && count.Add(1) <= n {
			return fault
		}
		return Fault{}
	}
}

// Always is a hook for all operations: a store that is away.
func Always(fault Fault) Hook {
	return func(Op, string) Fault { return fault }
}

// Store is a store with a hook before it.
type Store struct {
	store blob.Store
	hook  atomic.Pointer[Hook]
}

var _ blob.Store = (*Store)(nil)

// New returns store with the hook before it; nil is none.
func New(store blob.Store, hook Hook) *Store {
	s := &Store{store: store}
	s.SetHook(hook)
	return s
}

// SetHook replaces the hook. Operations under way keep the old one.
func (s *Store) SetHook(hook Hook) {
	if hook == nil {
		hook = func(Op, string) Fault { return Fault{} }
	}
	s.hook.Store(&hook)
}

func (s *Store) before(ctx context.Context, op Op, name string) (Fault, error) {
	fault := (*s.hook.Load())(op, name)
	if fault.Wait != nil {
		select {
		case <-fault.Wait:
		case <-ctx.Done():
			return fault, ctx.Err()
		}
	}
	if fault.Err != nil && !fault.Lost && !fault.Half {
		return fault, fault.Err
	}
	return fault, nil
}

// Put stores an object.
func (s *Store) Put(ctx context.Context, name string, src io.ReaderAt, size int64, crc32c uint32) error {
	fault, err := s.before(ctx, Put, name)
	if err != nil {
		return err
	}
	if fault.Half {
		if _, err := io.Copy(io.Discard, io.NewSectionReader(src, 0, size/2)); err != nil {
			return err
		}
		return fault.Err
	}
	if err := s.store.Put(ctx, name, src, size, crc32c); err != nil {
		return err
	}
	return fault.Err
}

// ReadAt reads from an object.
func (s *Store) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	fault, err := s.before(ctx, ReadAt, name)
	if err != nil {
		return 0, err
	}
	if fault.Half {
		n, err := s.store.ReadAt(ctx, name, p[:len(p)/2], off)
		if err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
		return n, fault.Err
	}
	n, err := s.store.ReadAt(ctx, name, p, off)
	if fault.Err != nil {
		return 0, fault.Err
	}
	return n, err
}

// Delete removes an object.
func (s *Store) Delete(ctx context.Context, name string) error {
	fault, err := s.before(ctx, Delete, name)
	if err != nil {
		return err
	}
	if !fault.Half {
		if err := s.store.Delete(ctx, name); err != nil {
			return err
		}
	}
	return fault.Err
}

// List lists objects.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		fault, err := s.before(ctx, List, prefix)
		if err != nil {
			yield(blob.Info{}, err)
			return
		}
		var all []blob.Info
		for info, err := range s.store.List(ctx, prefix) {
			if err != nil {
				yield(blob.Info{}, err)
				return
			}
			all = append(all, info)
		}
		if fault.Half {
			all = all[:len(all)/2]
		}
		for _, info := range all {
			if !yield(info, nil) {
				return
			}
		}
		if fault.Err != nil {
			yield(blob.Info{}, fault.Err)
		}
	}
}
