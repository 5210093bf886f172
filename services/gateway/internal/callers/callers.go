// Package callers remembers who has which secret, for as long as a registry
// allows it.
//
// A gateway that remembers is one that a revocation has to wait for, so the
// memory is on a lease. It holds until a time that the registry knows no earlier
// than this gateway does, and it holds answers of that one registry alone: what
// another one says might be older than a revocation that was acknowledged here.
//
// An answer may be on its way while the key is revoked. So it is remembered only
// if nothing was forgotten since it was asked for:
//
//	ask ──► registry          generation 7
//	        revoked: key_1 ──► forget, generation 8, acknowledge
//	answer ◄── (before the revocation)   not remembered: 8 is not 7
package callers

import (
	"crypto/sha256"
	"sync"
	"time"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
)

// Memory is what is remembered. The zero value remembers nothing and may not.
// Principals in it are shared and never changed. There is one for each key at
// most, so there are no more than keys.
type Memory struct {
	mu struct {
		sync.RWMutex
		// Until when what is here may be believed.
		until time.Time
		// Goes up with each thing forgotten.
		generation uint64
		bySecret   map[secretHash]*registryv1.Principal
	}
}

// secretHash keeps secrets themselves out of what lies in memory for long.
type secretHash [sha256.Size]byte

// A Question is what a registry is being asked.
type Question struct {
	secret     secretHash
	generation uint64
	// The memory may be used at all.
	Trusted bool
}

// Ask returns the principal of a secret, or the question to ask the registry.
func (m *Memory) Ask(secret string, now time.Time) (*registryv1.Principal, Question) {
	q := Question{secret: sha256.Sum256([]byte(secret))}
	m.mu.RLock()
	defer m.mu.RUnlock()
	q.generation = m.mu.generation
	if q.Trusted = now.Before(m.mu.until); !q.Trusted {
		return nil, q
	}
	return m.mu.bySecret[q.secret], q
}

// Answer remembers what the registry said, unless something was forgotten since
// it was asked.
func (m *Memory) Answer(q Question, p *registryv1.Principal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !q.Trusted || q.generation != m.mu.generation {
		return
	}
	if m.mu.bySecret == nil {
		m.mu.bySecret = make(map[secretHash]*registryv1.Principal)
	}
	m.mu.bySecret[q.secret] = p
}

// Forget forgets keys.
func (m *Memory) Forget(keys ...string) {
	if len(keys) == 0 {
		return
	}
	gone := make(map[string]bool, len(keys))
	for _, key := range keys {
		gone[key] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.generation++
	for secret, p := range m.mu.bySecret {
		if gone[p.GetId()] {
			delete(m.mu.bySecret, secret)
		}
	}
}

// Reset forgets everything, and that anything may be remembered.
func (m *Memory) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.generation++
	m.mu.until = time.Time{}
	clear(m.mu.bySecret)
}

// Trust says that what is remembered may be believed until a time.
func (m *Memory) Trust(until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.until = until
}
