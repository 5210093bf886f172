package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/replica"
)

// flip inverts bits of a byte in a file.
func flip(t *testing.T, fsys vfs.FS, name string, at int64, bits byte) {
	t.Helper()
	f, err := fsys.Open(name)
	require.NoError(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	require.NoError(t, err)
	b[0] ^= bits
	_, err = f.WriteAt(b[:], at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// written is a disk with a topic of two partitions of n single records each,
// after a clean stop or a kill.
func written(t *testing.T, n int, clean bool) (disk *memfs.FS, topic uuid.UUID) {
	t.Helper()
	disk, topic = memfs.New(), uuid.New()
	r := start(t, options(disk))
	require.NoError(t, r.Place([]*persistv1.CatalogTopic{placement(topic, 2, nil, 1)}))
	for i := range n {
		for p := range int32(2) {
			_, err := appendTo(r.partition(topic, p), batchOf(t, fmt.Sprintf("v%03d", i)))
			require.NoError(t, err)
		}
	}
	after := disk.Kill()
	require.NoError(t, r.stop())
	if clean {
		after = disk.Kill()
	}
	return after, topic
}

// read reads a partition from an offset on until it ends or fails.
func read(t *testing.T, p *Partition, offset int64, maxBytes int) (values map[int64]string, err error) {
	t.Helper()
	values = map[int64]string{}
	for {
		got, err := p.Fetch(t.Context(), Fetch{Offset: offset, MaxBytes: maxBytes, Epoch: NoEpoch, LastEpoch: NoEpoch})
		if err != nil {
			return values, err
		}
		if got.Next == offset {
			return values, nil
		}
		for rest := got.Batches; len(rest) > 0; {
			var batch []byte
			batch, rest, err = recordbatch.Next(rest)
			require.NoError(t, err)
			for record, err := range recordbatch.Records(batch, recordbatch.Limits{}) {
				require.NoError(t, err)
				values[record.Offset] = string(record.Value)
			}
		}
		offset = got.Next
	}
}

// waitFor takes from a subscription until a partition's report is as wanted.
func waitFor(t *testing.T, s *Subscription, key replica.Key, want func(Report) bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case <-s.C:
		case <-deadline:
			t.Fatal("the change was never reported")
		}
		for _, report := range s.Take() {
			if report.Key == key && want(report) {
				return
			}
		}
	}
}

func damaged(r Report) bool { return r.Damaged && !r.Leads }

// No byte of a batch in the middle of a segment can be flipped without being
// noticed: nothing wrong is served, the reader is told, and so is who watches.
// Other partitions take no notice.
func TestFlippedByteIsNeverServed(t *testing.T) {
	const records, victim = 30, 13
	disk, topic := written(t, records, true)
	size := int64(len(batchOf(t, "v000")))
	name := fmt.Sprintf("%s/%s/%s/0/%020d.log", dir, topicsFolder, topic, 0)
	for at := range size {
		bits := []byte{1 << (at % 8)}
		if at == 7 || at == 11 || at == 15 { // the low bytes of what no checksum covers
			bits = []byte{1, 2, 4, 8, 16, 32, 64, 128}
		}
		for _, bit := range bits {
			for _, maxBytes := range []int{1, 1 << 20} {
				rotten := disk.Kill()
				flip(t, rotten, name, victim*size+at, bit)
				n, err := Open(options(rotten))
				require.NoError(t, err)
				changes := n.Subscribe()
				r := run(t, n)
				p := r.partition(topic, 0)

				got, err := read(t, p, 0, maxBytes)
				require.ErrorIs(t, err, ErrDamaged, "byte %d ^ %d, %d bytes at once, after %d records", at, bit, maxBytes, len(got))
				for offset, value := range got {
					require.Less(t, offset, int64(victim))
					require.Equal(t, fmt.Sprintf("v%03d", offset), value)
				}
				waitFor(t, changes, p.Key(), damaged)
				changes.Close()
				_, err = appendTo(p, batchOf(t, "x"))
				require.ErrorIs(t, err, ErrDamaged)
				_, err = p.Fetch(t.Context(), Fetch{MaxBytes: 1, Epoch: NoEpoch, LastEpoch: NoEpoch})
				require.ErrorIs(t, err, ErrDamaged, "a damaged replica serves nothing")
				require.Len(t, values(t, r.partition(topic, 1)), records)
				require.NoError(t, r.stop())
			}
		}
	}
}

// Damage that is found when a partition is opened is reported without anybody
// asking for the partition.
func TestDamageFoundAtTheStartIsReported(t *testing.T) {
	for _, gone := range []string{"journal", fmt.Sprintf("%020d.log", 0)} {
		t.Run(gone, func(t *testing.T) {
			disk, topic := written(t, 5, false)
			require.NoError(t, disk.Remove(fmt.Sprintf("%s/%s/%s/0/%s", dir, topicsFolder, topic, gone)))
			n, err := Open(options(disk))
			require.NoError(t, err)
			changes := n.Subscribe()
			defer changes.Close()
			r := run(t, n)
			p := r.partition(topic, 0)
			waitFor(t, changes, p.Key(), damaged)
			_, err = appendTo(p, batchOf(t, "x"))
			require.ErrorIs(t, err, ErrDamaged)
			require.Len(t, values(t, r.partition(topic, 1)), 5)

			// Nothing of it is deleted, or made anew.
			require.NoError(t, r.stop())
			names, err := disk.List(fmt.Sprintf("%s/%s/%s/0", dir, topicsFolder, topic))
			require.NoError(t, err)
			require.NotContains(t, names, gone)
			require.NotEmpty(t, names)
		})
	}
}

// A partition whose disk failed is reported while it serves nothing, and again
// when it is back.
func TestRecoveryIsReported(t *testing.T) {
	f := newFaulty(t, isWrite, errDead)
	require.NoError(t, f.write())
	changes := f.Subscribe()
	defer changes.Close()
	key := f.partition(f.topic, 0).Key()
	f.fault.next(1)
	require.Error(t, f.write())
	waitFor(t, changes, key, damaged)
	f.clock.advance(reopenPause)
	require.NoError(t, f.write())
	waitFor(t, changes, key, func(r Report) bool { return r.Leads && !r.Damaged })
}

// Strange entries beside the partitions stop nothing and are not deleted.
func TestStrayFoldersAreSetAside(t *testing.T) {
	disk, topic := written(t, 3, true)
	for _, stray := range []string{"topics/notes", "topics/" + topic.String() + "/7", "topics/" + topic.String() + "/-1"} {
		require.NoError(t, disk.MkdirAll(dir+"/"+stray))
	}
	r := start(t, options(disk))
	require.Len(t, values(t, r.partition(topic, 0)), 3)
	aside, err := disk.List(dir + "/" + unclaimedFolder)
	require.NoError(t, err)
	require.Len(t, aside, 3, strings.Join(aside, " "))
}
