package grpcdoor_test

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

// BenchmarkCall is a call with nothing behind it, over loopback, client included.
func BenchmarkCall(b *testing.B) {
	for _, callers := range []int{1, 64} {
		for _, size := range []int{100, 512 << 10} {
			b.Run(fmt.Sprintf("callers=%d/bytes=%d", callers, size), func(b *testing.B) {
				cfg := limits()
				cfg.BudgetBytes = 256 * mib
				s := start(b, cfg)
				client := logv1.NewLogServiceClient(s.client(b))
				request := produceOf(size)
				_, err := client.Produce(keyed(b.Context()), request)
				require.NoError(b, err)
				b.SetBytes(int64(size))
				before := spent(b)
				b.ReportAllocs()
				b.ResetTimer()
				b.SetParallelism(callers)
				var failed atomic.Int64
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := client.Produce(keyed(b.Context()), request); err != nil {
							failed.Add(1)
						}
					}
				})
				b.StopTimer()
				require.Zero(b, failed.Load())
				b.ReportMetric(float64(spent(b)-before)/1000/float64(b.N), "cpu-µs/op")
			})
		}
	}
}

// spent is the CPU time of the process in nanoseconds.
func spent(tb testing.TB) int64 {
	tb.Helper()
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}
