package node

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

var (
	fullDisks = flag.Uint64("node.fulldisks", 40, "random histories on full disks to try")
	fullDisk  = flag.Uint64("node.fulldisk", 0, "the one history to try")
)

// brimful is a disk that is full from time to time, and then takes some writes, a part
// of others, and none of the rest.
type brimful struct {
	mu   sync.Mutex
	rng  *rand.Rand
	full bool
}

func (d *brimful) hook(op faultfs.Op, _ string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.full || !isWrite(op) && op != faultfs.Create {
		return nil
	}
	switch d.rng.IntN(4) {
	case 0:
		return nil
	case 1:
		if isWrite(op) {
			return &faultfs.Short{N: d.rng.IntN(300), Err: syscall.ENOSPC}
		}
	}
	return syscall.ENOSPC
}

func (d *brimful) fill(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

// TestFullDisksAndCrashes appends on disks that run full again and again, under
// processes that are killed or lose their power, and finds all that was acknowledged,
// in its place, and nothing that nobody asked for.
func TestFullDisksAndCrashes(t *testing.T) {
	seeds := []uint64{*fullDisk}
	if *fullDisk == 0 {
		seeds = seeds[:0]
		for seed := range *fullDisks {
			seeds = append(seeds, seed+1)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { fullDiskHistory(t, seed) })
	}
}

func fullDiskHistory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 41))
	disk, topic, clock := memfs.New(), uuid.New(), newClock()
	asked, acked, first, refused := map[string]bool{}, map[int64]string{}, int64(0), 0
	for life := range 4 {
		d := &brimful{rng: rand.New(rand.NewPCG(seed, uint64(life)))}
		o := options(faultfs.New(disk, d.hook))
		o.Now, o.Defaults.SegmentBytes = clock.now, 2048
		r := start(t, o)
		require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 1, nil, 1)}))
		p := r.partition(topic, 0)
		for i := range 60 {
			switch rng.IntN(12) {
			case 0:
				d.fill(true)
			case 1:
				d.fill(false)
			case 2:
				clock.advance(reopenPause)
			case 3:
				p.sleep()
				_ = p.await(false, func(*replica.Replica) error { return nil })
			case 4:
				if advanced, err := p.AdvanceStart(t.Context(), first+rng.Int64N(10)); err == nil {
					first = advanced
				}
			default:
				value := fmt.Sprintf("%d-%d-%s", life, i, strings.Repeat("x", rng.IntN(400)))
				asked[value] = true
				if result, err := appendTo(p, batchOf(t, value)); err == nil {
					require.Empty(t, acked[result.BaseOffset], "an offset is given once")
					acked[result.BaseOffset] = value
				} else {
					refused++
					require.True(t, errors.Is(err, replica.ErrUnknownOutcome) || errors.Is(err, ErrNoSpace), "%v", err)
				}
			}
		}
		requireAcked(t, p, acked, asked)
		if rng.IntN(3) == 0 {
			_ = r.stop() // it may fail for want of space
		}
		next := disk.Kill()
		if rng.IntN(2) == 0 {
			next = disk.Crash(rng)
		}
		_ = r.stop()
		disk = next
	}
	r := start(t, options(disk))
	requireAcked(t, r.partition(topic, 0), acked, asked)
	require.NotZero(t, refused)
	require.NotEmpty(t, acked)
}

// requireAcked: all that was acknowledged and not deleted is there, at its offset.
func requireAcked(t *testing.T, p *Partition, acked map[int64]string, asked map[string]bool) {
	t.Helper()
	d, err := p.Describe(t.Context())
	require.NoError(t, err)
	got := values(t, p)
	start := d.View.State.StartOffset
	require.Equal(t, d.View.HighWatermark-start, int64(len(got)))
	for i, value := range got {
		require.True(t, asked[value])
		if want := acked[start+int64(i)]; want != "" {
			require.Equal(t, want, value)
		}
	}
	for offset := range acked {
		require.Less(t, offset, d.View.HighWatermark)
	}
}
