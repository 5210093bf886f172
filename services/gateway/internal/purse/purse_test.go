package purse

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var start = time.Unix(1763500000, 0)

func TestPurse(t *testing.T) {
	var p Purse
	require.False(t, p.Spend(1, start))
	p.Put(10, start)
	require.True(t, p.Spend(4, start))
	require.False(t, p.Spend(7, start))
	p.Put(5, start.Add(time.Second/2))
	require.EqualValues(t, 11, p.Bytes(start.Add(time.Second-1)))
	require.Zero(t, p.Bytes(start.Add(time.Second)), "bytes of different ages go with the oldest")

	require.EqualValues(t, 7, p.Charge(7, start.Add(time.Second)))
	p.Put(3, start.Add(time.Second))
	require.EqualValues(t, -4, p.Bytes(start.Add(time.Hour)), "a debt does not pass")
	p.Settle(4)
	require.Zero(t, p.Bytes(start.Add(time.Hour)))
}

// Nothing is spent that was not granted or is not owed, whatever is taken out and
// put back.
func TestNothingComesFromNowhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Purse
		var out []Purse
		now := start
		var in, spent int64
		amount := rapid.Int64Range(0, 100)
		t.Repeat(map[string]func(*rapid.T){
			"pass": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 700).Draw(t, "ms")) * time.Millisecond)
			},
			"put": func(t *rapid.T) {
				n := amount.Draw(t, "n")
				p.Put(n, now)
				in += n
			},
			"spend": func(t *rapid.T) {
				if n := amount.Draw(t, "n"); p.Spend(n, now) {
					spent += n
				}
			},
			"charge": func(t *rapid.T) {
				n := amount.Draw(t, "n")
				debt := p.Charge(n, now)
				spent += n
				p.Settle(debt)
				in += debt
			},
			"take": func(t *rapid.T) { out = append(out, p.Take(now)) },
			"return": func(t *rapid.T) {
				if len(out) > 0 {
					p.Return(out[0], now)
					out = out[1:]
				}
			},
			"": func(t *rapid.T) {
				require.GreaterOrEqual(t, p.bytes, int64(0))
				require.LessOrEqual(t, spent, in)
			},
		})
	})
}
