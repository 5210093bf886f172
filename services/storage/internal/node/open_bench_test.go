package node

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// BenchmarkOpen opens 2,000 partitions after a clean stop.
func BenchmarkOpen(b *testing.B) {
	const partitions = 2000
	o := options(vfs.OS)
	o.Dir = b.TempDir()
	n, err := Open(o)
	require.NoError(b, err)
	topic := uuid.New()
	require.NoError(b, n.Place([]*persistv1.CatalogTopic{placement(topic, partitions, nil, 1)}))
	var group errgroup.Group
	group.SetLimit(32)
	for i := range int32(partitions) {
		group.Go(func() error {
			p, err := n.Partition(replica.Key{Topic: topic, Partition: i})
			if err != nil {
				return err
			}
			_, err = appendTo(p, batchOf(b, "x"))
			return err
		})
	}
	require.NoError(b, group.Wait())
	require.NoError(b, n.stop())
	b.ReportAllocs()
	for b.Loop() {
		n, err := Open(o)
		require.NoError(b, err)
		n.openAll(b.Context())
		b.StopTimer()
		require.NoError(b, n.stop())
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/partitions, "µs/partition")
}
