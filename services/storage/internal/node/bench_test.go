package node

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// BenchmarkAppend writes records of 1 KiB from callers that each wait for their
// own, to a real disk, through Raft.
func BenchmarkAppend(b *testing.B) {
	for _, shape := range []struct{ partitions, callers, size int }{
		{1, 1, 1 << 10}, {1, 8, 1 << 10}, {1, 64, 1 << 10}, {1, 256, 1 << 10}, {64, 256, 1 << 10}, {1, 4, 256 << 10},
	} {
		b.Run(fmt.Sprintf("partitions=%d/callers=%d/bytes=%d", shape.partitions, shape.callers, shape.size), func(b *testing.B) {
			o := options(vfs.OS)
			o.Dir = b.TempDir()
			o.Defaults = Defaults{SegmentBytes: 1 << 30, MaxMessageBytes: 1 << 20}
			o.Workers, o.MaxAwake = 64, 1000
			o.MaxAppendBytes = 256 << 20
			n, err := Open(o)
			require.NoError(b, err)
			topic := uuid.New()
			require.NoError(b, n.Place([]*persistv1.CatalogTopic{placement(topic, shape.partitions, nil, 1)}))
			builder := recordbatch.NewBuilder(recordbatch.Options{})
			builder.Append(1, nil, make([]byte, shape.size), nil)
			batch, err := builder.Finish()
			require.NoError(b, err)
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var group sync.WaitGroup
			for caller := range shape.callers {
				group.Go(func() {
					p, err := n.Partition(replica.Key{Topic: topic, Partition: int32(caller % shape.partitions)})
					require.NoError(b, err)
					for left.Add(-1) >= 0 {
						own := append([]byte(nil), batch...)
						a, err := p.Append(b.Context(), [][]byte{own}, replica.NoOwner)
						require.NoError(b, err)
						_, err = a.Wait(b.Context())
						require.NoError(b, err)
					}
				})
			}
			group.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			require.NoError(b, n.stop())
		})
	}
}

// BenchmarkBareDisk is the same writes and syncs without a log: callers that
// meet in a group commit over one file.
func BenchmarkBareDisk(b *testing.B) {
	for _, callers := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			file, err := vfs.OS.Create(filepath.Join(b.TempDir(), "disk"))
			require.NoError(b, err)
			zeros := make([]byte, 8<<20)
			for at := range int64(64) {
				_, err := file.WriteAt(zeros, at<<23)
				require.NoError(b, err)
			}
			require.NoError(b, file.Sync())
			record := make([]byte, 1<<10)
			type write struct{ done chan struct{} }
			queue := make(chan write, callers)
			stop := make(chan struct{})
			go func() {
				defer close(stop)
				at := int64(0)
				for first := range queue {
					group := []write{first}
					for len(queue) > 0 {
						group = append(group, <-queue)
					}
					bufs := make([][]byte, len(group))
					for i := range bufs {
						bufs[i] = record
					}
					if at += int64(len(group)) << 10; at > 400<<20 {
						at = 0
					}
					if _, err := file.WritevAt(bufs, at); err != nil {
						panic(err)
					}
					if err := file.Datasync(); err != nil {
						panic(err)
					}
					for _, w := range group {
						close(w.done)
					}
				}
			}()
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			began := time.Now()
			var group sync.WaitGroup
			for range callers {
				group.Go(func() {
					for left.Add(-1) >= 0 {
						w := write{done: make(chan struct{})}
						queue <- w
						<-w.done
					}
				})
			}
			group.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "records/s")
			close(queue)
			<-stop
		})
	}
}
