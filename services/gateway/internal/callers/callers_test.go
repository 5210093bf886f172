package callers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	registryv1 "github.com/sluiceio/sluice/gen/go/sluice/registry/v1"
	"github.com/sluiceio/sluice/services/gateway/internal/callers"
)

var start = time.Unix(1763500000, 0)

func TestMemory(t *testing.T) {
	var m callers.Memory
	alice := &registryv1.Principal{Id: "key_1"}
	_, q := m.Ask("a", start)
	m.Answer(q, alice)
	m.Trust(start.Add(time.Second))
	got, q := m.Ask("a", start)
	require.Nil(t, got, "what was asked without leave is not remembered")
	m.Answer(q, alice)
	got, _ = m.Ask("a", start)
	require.Equal(t, alice, got)
	got, _ = m.Ask("b", start)
	require.Nil(t, got)
	got, _ = m.Ask("a", start.Add(time.Second))
	require.Nil(t, got, "the leave is over")
	m.Forget("key_2")
	got, _ = m.Ask("a", start)
	require.Equal(t, alice, got)
	m.Forget("key_1")
	got, q = m.Ask("a", start)
	require.Nil(t, got)
	m.Answer(q, alice)
	m.Reset()
	got, _ = m.Ask("a", start)
	require.Nil(t, got)
}

// However answers, revocations and leases follow one another, nobody who was
// forgotten is known again by an answer that is older than that.
func TestWhatIsRevokedIsNeverKnownAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m callers.Memory
		now := start
		valid := map[string]bool{"0": true, "1": true, "2": true}
		type answer struct {
			q  callers.Question
			id string
			ok bool
		}
		var under []answer
		keys := rapid.SampledFrom([]string{"0", "1", "2"})
		t.Repeat(map[string]func(*rapid.T){
			"trust": func(t *rapid.T) { m.Trust(now.Add(time.Second)) },
			"pass": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(t, "ms")) * time.Millisecond)
			},
			"ask": func(t *rapid.T) {
				id := keys.Draw(t, "key")
				p, q := m.Ask("secret"+id, now)
				if p != nil {
					require.Equal(t, id, p.GetId())
					require.True(t, valid[id], "key %s was revoked", id)
					return
				}
				// The registry answers at once; the answer takes its time.
				under = append(under, answer{q, id, valid[id]})
			},
			"arrive": func(t *rapid.T) {
				if len(under) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(under)-1).Draw(t, "which")
				a := under[i]
				under = append(under[:i], under[i+1:]...)
				if a.ok {
					m.Answer(a.q, &registryv1.Principal{Id: a.id})
				}
			},
			"revoke": func(t *rapid.T) {
				id := keys.Draw(t, "key")
				valid[id] = false
				if rapid.Bool().Draw(t, "all") {
					m.Reset()
				} else {
					m.Forget(id, fmt.Sprint("other", id))
				}
			},
		})
	})
}
