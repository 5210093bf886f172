// Package coldtest is a store of objects in memory that fails as a test says.
package coldtest

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sluiceio/sluice/services/kit/blob"
)

// Op is an operation of a store.
type Op string

// The operations.
const (
	Put    Op = "put"
	ReadAt Op = "read"
	Delete Op = "delete"
	List   Op = "list"
)

// Fault is what becomes of an operation. The zero value is nothing.
type Fault struct {
	// Err is what the operation returns. It is not done, unless Done says that its
	// answer alone is lost.
	Err  error
	Done bool
	// Late has a Put fail now, and be done at the next Settle.
	Late bool
}

// ErrFault is an error for faults.
var ErrFault = errors.New("the store failed")

// Store is a store in memory.
type Store struct {
	mu      sync.Mutex
	objects map[string][]byte
	hook    func(ctx context.Context, op Op, name string) Fault
	late    map[string][]byte
	counts  map[Op]int
}

var _ blob.Store = (*Store)(nil)

// New makes an empty store.
func New() *Store {
	return &Store{objects: map[string][]byte{}, late: map[string][]byte{}, counts: map[Op]int{}}
}

// Settle does what is late.
func (s *Store) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.objects, s.late)
	clear(s.late)
}

// Hook has every operation ask what becomes of it; nil ends that. It is called
// without any lock, and may block.
func (s *Store) Hook(hook func(ctx context.Context, op Op, name string) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// Names are the names of all objects, sorted.
func (s *Store) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Count is how many operations of a kind there were.
func (s *Store) Count(op Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[op]
}

// Object returns an object's bytes, which may be changed; nil if there is none.
func (s *Store) Object(name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[name]
}

// Set writes an object as nobody would.
func (s *Store) Set(name string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[name] = content
}

func (s *Store) ask(ctx context.Context, op Op, name string) (Fault, error) {
	s.mu.Lock()
	s.counts[op]++
	hook := s.hook
	s.mu.Unlock()
	if hook == nil {
		return Fault{}, ctx.Err()
	}
	fault := hook(ctx, op, name)
	return fault, ctx.Err()
}

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, name string, src io.ReaderAt, size int64, crc32c uint32) error {
	fault, err := s.ask(ctx, Put, name)
	if err != nil || fault.Err != nil && !fault.Done && !fault.Late {
		return errors.Join(err, fault.Err)
	}
	content, err := io.ReadAll(io.NewSectionReader(src, 0, size))
	if err != nil {
		return err
	}
	if int64(len(content)) != size || crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)) != crc32c {
		return errors.New("checksum does not match")
	}
	if fault.Late {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.late[name] = content
		return fault.Err
	}
	s.Set(name, content)
	return fault.Err
}

// ReadAt implements blob.Store.
func (s *Store) ReadAt(ctx context.Context, name string, p []byte, off int64) (int, error) {
	fault, err := s.ask(ctx, ReadAt, name)
	if err != nil || fault.Err != nil {
		return 0, errors.Join(err, fault.Err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.objects[name]
	if !ok {
		return 0, blob.ErrNotFound
	}
	return bytes.NewReader(content).ReadAt(p, off)
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, name string) error {
	fault, err := s.ask(ctx, Delete, name)
	if err != nil || fault.Err != nil && !fault.Done {
		return errors.Join(err, fault.Err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, name)
	return fault.Err
}

// List implements blob.Store.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		fault, err := s.ask(ctx, List, prefix)
		if err != nil || fault.Err != nil {
			yield(blob.Info{}, errors.Join(err, fault.Err))
			return
		}
		for _, name := range s.Names() {
			if strings.HasPrefix(name, prefix) && !yield(blob.Info{Name: name, Size: int64(len(s.Object(name)))}, nil) {
				return
			}
		}
	}
}
