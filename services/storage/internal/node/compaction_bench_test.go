package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/vfs"
)

// BenchmarkCompaction cleans 64 MiB of records of a kilobyte, of which a tenth
// stays.
func BenchmarkCompaction(b *testing.B) {
	for _, codec := range []recordbatch.Codec{recordbatch.None, recordbatch.Zstd} {
		b.Run(codec.String(), func(b *testing.B) {
			var size int64
			rng := rand.New(rand.NewPCG(1, 1))
			words := make([]byte, 64<<10)
			for i := range words {
				words[i] = byte(rng.Uint32())
			}
			for b.Loop() {
				b.StopTimer()
				o := options(vfs.OS)
				o.Dir, o.Defaults.SegmentBytes, o.Upkeep.CompactionBytes = b.TempDir(), 2<<20, 32<<20
				n, err := Open(o)
				require.NoError(b, err)
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan error, 1)
				go func() { done <- n.Run(ctx) }()
				topic := uuid.New()
				require.NoError(b, n.Place([]*persistv1.CatalogTopic{placement(topic, 1, map[string]string{"cleanup.policy": "compact"}, 1)}))
				p := n.Partitions()[0]
				const total = 64 << 10
				size = 0
				for at := 0; at < total; at += 512 {
					var pairs []pair
					for i := range 512 {
						pairs = append(pairs, pair{fmt.Sprint("key ", (at+i)*7919%(total/10)), fmt.Sprintf("%x", words[rng.IntN(len(words)-500):][:500])})
					}
					batch := pairBatch(b, recordbatch.Options{Codec: codec}, time.Now(), pairs...)
					size += int64(len(batch))
					_, err := appendTo(p, batch)
					require.NoError(b, err)
				}
				b.StartTimer()
				failures, err := n.RunPass(ctx, Compaction, true)
				b.StopTimer()
				require.NoError(b, err)
				require.Empty(b, failures)
				cancel()
				require.NoError(b, <-done)
				b.StartTimer()
			}
			b.SetBytes(size)
		})
	}
}
