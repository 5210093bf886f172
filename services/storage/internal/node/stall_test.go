package node

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// While the disk takes its time over one partition's sync, what comes to it waits
// and gets offsets of its own; the other partitions go on.
func TestOffsetsWhileTheDiskStalls(t *testing.T) {
	stall := make(chan chan struct{}, 1)
	topic := uuid.New()
	disk := memfs.New()
	r := start(t, options(faultfs.New(disk, func(op faultfs.Op, name string) error {
		if op == faultfs.Datasync && strings.Contains(name, topic.String()+"/0/") {
			select {
			case over := <-stall:
				<-over
			default:
			}
		}
		return nil
	})))
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 2, nil, 1)}))
	p, other := r.partition(topic, 0), r.partition(topic, 1)
	_, err := appendTo(p, batchOf(t, "0"))
	require.NoError(t, err)

	over := make(chan struct{})
	end := sync.OnceFunc(func() { close(over) })
	defer end()
	stall <- over
	const writers, each = 8, 10
	var (
		running sync.WaitGroup
		mu      sync.Mutex
		at      = map[int64]string{0: "0"}
	)
	for w := range writers {
		var waiting []*Appending
		for i := range each {
			a, err := p.Append(context.Background(), [][]byte{batchOf(t, fmt.Sprintf("%d-%d", w, i))}, replica.NoOwner)
			require.NoError(t, err)
			waiting = append(waiting, a)
		}
		running.Go(func() {
			for i, a := range waiting {
				result, err := a.Wait(context.Background())
				mu.Lock()
				if _, taken := at[result.BaseOffset]; err != nil || taken {
					t.Errorf("append %d-%d: offset %d, taken %t: %v", w, i, result.BaseOffset, taken, err)
				}
				at[result.BaseOffset] = fmt.Sprintf("%d-%d", w, i)
				mu.Unlock()
			}
		})
	}
	for range 20 {
		_, err := appendTo(other, batchOf(t, "x"))
		require.NoError(t, err)
	}
	mu.Lock()
	require.Len(t, at, 1, "nothing is answered before its sync")
	mu.Unlock()
	end()
	running.Wait()
	got := values(t, p)
	require.Len(t, got, 1+writers*each)
	for offset, value := range got {
		require.Equal(t, value, at[int64(offset)])
	}
}
