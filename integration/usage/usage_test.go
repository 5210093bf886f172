package usage

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCPUWithHostileName(t *testing.T) {
	cpu, err := parseCPU([]byte("42 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20"))
	require.NoError(t, err)
	require.Equal(t, 2*time.Second, cpu)

	_, err = parseCPU([]byte("42 (a) S 1"))
	require.Error(t, err)
	_, err = parseCPU(nil)
	require.Error(t, err)
}

func TestOfThisProcess(t *testing.T) {
	before, err := Of(os.Getpid())
	require.NoError(t, err)
	require.Positive(t, before.RSS)
	require.GreaterOrEqual(t, before.MaxRSS, before.RSS)
	require.Positive(t, before.Threads)

	// On a busy machine a process gets the CPU when it is its turn.
	require.Eventually(t, func() bool {
		for began := time.Now(); time.Since(began) < 20*time.Millisecond; {
		}
		after, err := Of(os.Getpid())
		return err == nil && after.CPU > before.CPU
	}, 20*time.Second, time.Millisecond)

	_, err = Of(1 << 30)
	require.ErrorIs(t, err, os.ErrNotExist)
}
