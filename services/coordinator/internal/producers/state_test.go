package producers_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/services/coordinator/internal/producers"
	"github.com/sluiceio/sluice/services/coordinator/internal/shard"
)

var start = time.UnixMilli(1_700_000_000_000)

// log is a shard's log with its state.
type log struct {
	state   *producers.State
	records []shard.Record
}

func (l *log) write(records []shard.Record) {
	for _, r := range records {
		l.state.Apply(r)
	}
	l.records = append(l.records, records...)
}

// load replays what compaction leaves, as the next owner does.
func (l *log) load(now time.Time) {
	last := map[string]int{}
	for i, r := range l.records {
		last[r.Key.String()] = i
	}
	l.state = producers.NewState(now)
	for i, r := range l.records {
		if last[r.Key.String()] == i {
			l.state.Apply(r)
		}
	}
}

func (l *log) resolve(now time.Time, owner, id string) (int64, error) {
	number, records, err := l.state.Resolve(now, owner, id)
	if err == nil {
		l.write(records)
	}
	return number, err
}

// TestNumbersAreNeverGivenTwice runs owners of the shard that come and go, with
// appends that fail, against the rules: one number for as long as an id is
// remembered, one owner, and no number ever again.
func TestNumbersAreNeverGivenTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := start
		l := &log{state: producers.NewState(now)}
		type holder struct {
			owner  string
			number int64
			used   time.Time
		}
		held := map[string]*holder{}
		given := map[int64]string{}
		var life int
		id := func(t *rapid.T) string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id") }
		owner := func(t *rapid.T) string { return rapid.SampledFrom([]string{"k1", "k2"}).Draw(t, "owner") }
		t.Repeat(map[string]func(*rapid.T){
			"resolve": func(t *rapid.T) {
				id, owner := id(t), owner(t)
				h := held[id]
				if h != nil && now.Sub(h.used) >= producers.Idle && now.Sub(h.used) < producers.Idle+2*time.Hour {
					return // within the margin it may be either way
				}
				if h != nil && now.Sub(h.used) >= producers.Idle {
					h = nil
				}
				number, err := l.resolve(now, owner, id)
				if h != nil && h.owner != owner {
					require.ErrorIs(t, err, producers.ErrNotOwner)
					return
				}
				require.NoError(t, err)
				if h == nil {
					life++
					name := fmt.Sprint(life)
					before, taken := given[number]
					require.False(t, taken, "number %d was %s", number, before)
					given[number] = name
					h = &holder{owner: owner, number: number}
					held[id] = h
				}
				require.Equal(t, h.number, number)
				h.used = now
			},
			"failed resolve": func(t *rapid.T) {
				id := id(t)
				if held[id] != nil {
					return // it would count as a use
				}
				_, records, err := l.state.Resolve(now, owner(t), id)
				require.NoError(t, err)
				var undos []func()
				for _, r := range records {
					undos = append(undos, l.state.Apply(r))
				}
				for _, undo := range slices.Backward(undos) {
					undo()
				}
			},
			"forget": func(t *rapid.T) {
				id := id(t)
				records, found := l.state.Forget(now, "", id)
				require.True(t, !found || held[id] != nil)
				l.write(records)
				delete(held, id)
			},
			"time": func(t *rapid.T) {
				now = now.Add(rapid.SampledFrom([]time.Duration{time.Minute, 2 * time.Hour, 100 * time.Hour}).Draw(t, "for"))
			},
			"due": func(*rapid.T) {
				for next := l.state.NextDue(); !next.IsZero() && !next.After(now); next = l.state.NextDue() {
					l.write(l.state.Due(now))
				}
			},
			"next owner": func(*rapid.T) { l.load(now) },
			"": func(t *rapid.T) {
				for _, k := range l.state.List(now) {
					h := held[k.ID]
					require.NotNil(t, h)
					require.Equal(t, h.number, k.Number)
					require.Equal(t, h.owner, k.Owner)
					require.WithinDuration(t, h.used, k.LastUsed, time.Hour)
				}
			},
		})
	})
}

func TestAKeyOwnsTenThousand(t *testing.T) {
	l := &log{state: producers.NewState(start)}
	for i := range producers.MaxOwned {
		_, err := l.resolve(start, "k1", fmt.Sprint(i))
		require.NoError(t, err)
	}
	_, err := l.resolve(start, "k1", "one more")
	require.ErrorIs(t, err, producers.ErrTooMany)
	_, err = l.resolve(start, "k1", "7")
	require.NoError(t, err, "what it owns it may use")
	_, err = l.resolve(start, "k2", "one more")
	require.NoError(t, err, "others are not kept from it")

	records, found := l.state.Forget(start, "k2", "8")
	require.False(t, found, "not its own")
	require.Empty(t, records)
	records, found = l.state.Forget(start, "k1", "8")
	require.True(t, found)
	l.write(records)
	_, err = l.resolve(start, "k1", "another")
	require.NoError(t, err)

	// Idle ones make room by themselves.
	later := start.Add(producers.Idle + 2*time.Hour)
	_, err = l.resolve(later, "k1", "and one more")
	require.NoError(t, err)
}

func TestMostUsesWriteNothing(t *testing.T) {
	l := &log{state: producers.NewState(start)}
	number, err := l.resolve(start, "k1", "a")
	require.NoError(t, err)
	for _, after := range []time.Duration{time.Second, 59 * time.Minute} {
		got, ok, err := l.state.Look(start.Add(after), "k1", "a")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, number, got)
	}
	_, ok, err := l.state.Look(start.Add(time.Hour), "k1", "a")
	require.NoError(t, err)
	require.False(t, ok)
	_, records, err := l.state.Resolve(start.Add(time.Hour), "k1", "a")
	require.NoError(t, err)
	require.Len(t, records, 1)
}
