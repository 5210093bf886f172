package headroom

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPercent(t *testing.T) {
	require.Equal(t, 800, percent(0, 32<<20), "before the first collection nothing is known to be alive")
	require.Equal(t, 320, percent(10<<20, 32<<20))
	require.Equal(t, 100, percent(32<<20, 32<<20))
	require.Equal(t, 100, percent(1<<30, 32<<20), "a large heap keeps Go's own rule")
}

var sink []byte

// collections counts the collections while some bytes are allocated.
func collections(bytes int) uint32 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range bytes >> 16 {
		sink = make([]byte, 1<<16)
	}
	runtime.ReadMemStats(&after)
	return after.NumGC - before.NumGC
}

func TestKeepMakesASmallHeapCollectLess(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(goDefault))
	runtime.GC()
	without := collections(1 << 30)
	Keep(64 << 20)
	with := collections(1 << 30)
	t.Logf("%d collections without headroom, %d with it", without, with)
	require.Less(t, with*3, without)
	require.Positive(t, with)
}
