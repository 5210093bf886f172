package retain_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/services/storage/internal/retain"
)

const now = 1_000_000

// segmentsOf are segments of 10 offsets and 100 bytes each, of which the last is
// active; each is of a timestamp and was written to last at that time.
func segmentsOf(timestamps ...int64) []retain.Segment {
	var out []retain.Segment
	for i, ts := range timestamps {
		out = append(out, retain.Segment{
			Base: int64(10 * i), Next: int64(10 * (i + 1)), Size: 100,
			MaxTimestamp: ts, LastAppendMs: ts, Sealed: i+1 < len(timestamps),
		})
	}
	return out
}

func TestStart(t *testing.T) {
	old, young := int64(now-2000), int64(now-500)
	forever := retain.Limits{Ms: retain.Unlimited, Bytes: retain.Unlimited}
	second := retain.Limits{Ms: 1000, Bytes: retain.Unlimited}
	future := segmentsOf(old, old, young)
	future[0].MaxTimestamp = now * 1000
	past := segmentsOf(young, young, young)
	past[0].MaxTimestamp = 1
	undated := segmentsOf(old, young, young)
	undated[0].MaxTimestamp, undated[1].MaxTimestamp = -1, -1
	for name, c := range map[string]struct {
		segments     []retain.Segment
		limits       retain.Limits
		start, bound int64
		want         int64
	}{
		"no limit":                       {segmentsOf(old, old, young), forever, 0, 30, 0},
		"by time":                        {segmentsOf(old, old, young, young), second, 0, 40, 20},
		"just at the age":                {segmentsOf(now-1000, young), second, 0, 20, 0},
		"just over the age":              {segmentsOf(now-1001, young), second, 0, 20, 10},
		"retention of nothing":           {segmentsOf(old, old, old), retain.Limits{Ms: 0, Bytes: retain.Unlimited}, 0, 30, 20},
		"the active one never":           {segmentsOf(old, old, old), second, 0, 30, 20},
		"oldest first":                   {segmentsOf(young, old, young), second, 0, 30, 0},
		"a future date delays nothing":   {future, second, 0, 30, 20},
		"a past date is believed":        {past, second, 0, 30, 10},
		"without dates by the append":    {undated, second, 0, 30, 10},
		"by size":                        {segmentsOf(old, old, old, old), retain.Limits{Ms: retain.Unlimited, Bytes: 250}, 0, 40, 10},
		"never below the size":           {segmentsOf(old, old, old, old), retain.Limits{Ms: retain.Unlimited, Bytes: 300}, 0, 40, 10},
		"size of nothing":                {segmentsOf(old, old, old), retain.Limits{Ms: retain.Unlimited, Bytes: 0}, 0, 30, 20},
		"not above the bound":            {segmentsOf(old, old, old, old), second, 0, 25, 20},
		"size below the start is gone":   {segmentsOf(young, young, young), retain.Limits{Ms: retain.Unlimited, Bytes: 200}, 10, 30, 10},
		"a start within a segment stays": {segmentsOf(young, young, young), second, 15, 30, 15},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, retain.Start(c.segments, c.limits, c.start, c.bound, now))
		})
	}
}

// Whatever the segments are, retention moves forward to the end of a sealed
// segment, and running it again on what is left changes nothing.
func TestStartIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var segments []retain.Segment
		next := int64(0)
		n := rapid.IntRange(1, 8).Draw(t, "segments")
		for i := range n {
			s := retain.Segment{
				Base: next, Next: next + rapid.Int64Range(1, 20).Draw(t, "offsets"), Size: rapid.Int64Range(1, 500).Draw(t, "size"),
				MaxTimestamp: rapid.Int64Range(-1, 2*now).Draw(t, "timestamp"), LastAppendMs: rapid.Int64Range(0, now).Draw(t, "append"),
				Sealed: i+1 < n,
			}
			segments, next = append(segments, s), s.Next
		}
		limits := retain.Limits{Ms: rapid.Int64Range(-1, now).Draw(t, "ms"), Bytes: rapid.Int64Range(-1, 2000).Draw(t, "bytes")}
		bound := rapid.Int64Range(0, next).Draw(t, "bound")
		start := rapid.Int64Range(0, bound).Draw(t, "start")

		got := retain.Start(segments, limits, start, bound, now)
		require.GreaterOrEqual(t, got, start)
		require.LessOrEqual(t, got, bound)
		left := segments
		for len(left) > 1 && left[0].Next <= got {
			left = left[1:]
		}
		if got > start {
			require.Equal(t, got, left[0].Base, "it ends where a segment does")
		}
		require.Equal(t, got, retain.Start(left, limits, got, bound, now))
	})
}
