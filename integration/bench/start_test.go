package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/integration/cluster"
	"github.com/sluiceio/sluice/integration/httpapi"
)

// BenchmarkStart: how long a server takes to be ready, and its memory then.
func BenchmarkStart(b *testing.B) {
	b.Run("empty", func(b *testing.B) {
		s := cluster.NewProcess(b, cluster.Options{})
		measureStart(b, "ready on an empty data directory, idle memory", s)
	})
	b.Run("full", func(b *testing.B) {
		s := newServer(b, 64)
		fillServer(b, s)
		for partition := range 64 {
			_, err := s.api.Produce(b.Context(), topic, []httpapi.Record{httpapi.To(partition, "x")})
			require.NoError(b, err)
		}
		require.NoError(b, s.Stop())
		measureStart(b, "ready on a full data directory (64 partitions, 256 MiB), idle memory", s.Process)
		s.Kill()
		measureStart(b, "the same after kill -9", s.Process)
	})
}

func measureStart(b *testing.B, name string, s *cluster.Process) {
	ctx, cancel := context.WithTimeout(b.Context(), cluster.StartTimeout)
	defer cancel()
	began := time.Now()
	require.NoError(b, s.Start(ctx))
	took := time.Since(began)
	settle(window())
	reportStart(b, name, took, s.PID())
}
