package catalog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
)

var errBroken = errors.New("input/output error")

// gate is a file system as Linux is one: after a sync of a file that failed, the
// pages are gone and further syncs of it succeed, though nothing was written.
type gate struct {
	vfs.FS
}

func (g gate) Create(name string) (vfs.File, error) { return gated(g.FS.Create(name)) }
func (g gate) Open(name string) (vfs.File, error)   { return gated(g.FS.Open(name)) }

func gated(f vfs.File, err error) (vfs.File, error) { return &gatedFile{File: f}, err }

type gatedFile struct {
	vfs.File
	lost bool
}

func (f *gatedFile) Datasync() error { return f.sync(f.File.Datasync) }
func (f *gatedFile) Sync() error     { return f.sync(f.File.Sync) }

func (f *gatedFile) sync(do func() error) error {
	if f.lost {
		return nil
	}
	err := do()
	f.lost = err != nil
	return err
}

// fault fails operations from the one after next on, as many as it says.
type fault struct{ next, times int }

func (f *fault) hook(op faultfs.Op, _ string) error {
	if op == faultfs.Close || f.times == 0 {
		return nil
	}
	if f.next > 0 {
		f.next--
		return nil
	}
	f.times--
	return errBroken
}

// Whatever operation fails, the next change is made, in the same process, and what
// was acknowledged survives a power cut at any time.
func TestAnyOperationMayFail(t *testing.T) {
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 7))
		disk := memfs.New()
		var (
			f     fault
			ids   []uuid.UUID
			want  = map[uuid.UUID]string{}
			trace []string
		)
		for range 4 {
			c, err := Open(gate{faultfs.New(disk, f.hook)}, "")
			require.NoError(t, err, "seed %d: %v", seed, trace)
			got := map[uuid.UUID]string{}
			for _, topic := range c.Topics() {
				got[uuid.UUID(topic.GetTopicId())] = "held"
			}
			for _, id := range ids {
				if c.Removed(id) {
					require.NotEqual(t, "held", got[id])
					got[id] = "removed"
				}
				// One whose change failed may be as before or as asked for.
				if acked, sure := want[id]; sure {
					require.Equal(t, acked, got[id], "seed %d: %s: %v", seed, id, trace)
				}
				want[id] = got[id]
			}
			c.mu.fresh = 0 // so that it is written anew in between, too
			for range rng.IntN(8) {
				f = fault{next: rng.IntN(12), times: rng.IntN(3)}
				id, put := uuid.New(), rng.IntN(3) > 0
				if !put && len(ids) > 0 {
					id = ids[rng.IntN(len(ids))]
				}
				asked := "removed"
				if put {
					asked = "held"
					err = c.Put(topic(id, strings.Repeat("n", rng.IntN(600)), 1))
				} else {
					err = c.Remove(1, []uuid.UUID{id}, nil)
				}
				trace = append(trace, fmt.Sprintf("%s %s: %v", asked, id, err))
				ids = append(ids, id)
				if err == nil {
					want[id] = asked
				} else {
					require.ErrorIs(t, err, errBroken)
					delete(want, id)
				}
				if f.times == 0 || f.next > 0 {
					f = fault{}
					next := uuid.New()
					require.NoError(t, c.Put(topic(next, "next", 1)), "seed %d: %v", seed, trace)
					ids, want[next] = append(ids, next), "held"
				}
			}
			f = fault{}
			how := rng.IntN(3)
			trace = append(trace, fmt.Sprintf("end %d", how))
			switch how {
			case 0:
				require.NoError(t, c.Close())
			case 1:
				disk = disk.Kill()
			default:
				disk = disk.Crash(rng)
			}
		}
	}
}

// A removal of what is unknown is remembered as well as any.
func TestRemovalsAreRefusedForEver(t *testing.T) {
	disk := memfs.New()
	c, err := Open(disk, "")
	require.NoError(t, err)
	held, never := uuid.New(), uuid.New()
	require.NoError(t, c.Put(topic(held, "a", 3)))
	require.False(t, c.Refuses(held, 0))
	require.False(t, c.Refuses(never, 0))
	require.NoError(t, c.Remove(9, []uuid.UUID{held, never}, nil))
	for range 2 {
		require.True(t, c.Refuses(held, 100))
		require.True(t, c.Refuses(never, 100))
		require.False(t, c.Refuses(uuid.New(), 1))
		disk = disk.Crash(nil)
		c, err = Open(disk, "")
		require.NoError(t, err)
	}
}

// Only so many removals are remembered one by one; what is as old as a forgotten
// one is refused, unless it is held.
func TestForgottenRemovalsAreRefusedByTheirAge(t *testing.T) {
	disk := memfs.New()
	const keep = 8
	c, err := open(disk, "", keep)
	require.NoError(t, err)
	old := uuid.New()
	require.NoError(t, c.Put(topic(old, "old", 1)))
	var removed []uuid.UUID
	for revision := range int64(100) {
		id := uuid.New()
		removed = append(removed, id)
		require.NoError(t, c.Remove(10+revision, []uuid.UUID{id}, nil))
		require.LessOrEqual(t, len(c.mu.removed), keep)
		if revision%20 == 0 {
			c.mu.unsure = true // written anew with the next change
		}
		if revision%7 == 0 {
			disk = disk.Crash(nil)
			c, err = open(disk, "", keep)
			require.NoError(t, err)
		}
	}
	for i, id := range removed {
		require.True(t, c.Refuses(id, 9+int64(i)), "a row of before its removal")
	}
	require.False(t, c.Refuses(old, 1), "it is held")
	require.False(t, c.Refuses(uuid.New(), 110), "its row is newer than every removal")
	require.True(t, c.Refuses(uuid.New(), 50), "nobody can tell it from what was removed")
}

// A file that is changed for ever does not grow for ever, in one process.
func TestItDoesNotGrowForEver(t *testing.T) {
	c, err := Open(memfs.New(), "")
	require.NoError(t, err)
	id := uuid.New()
	long := strings.Repeat("n", 60_000)
	for version := range int64(100) {
		require.NoError(t, c.Put(topic(id, long, version)))
		require.LessOrEqual(t, c.mu.size, int64(rewriteFrom+2*len(long)))
	}
	require.Equal(t, map[string]bool{long + "@99": true}, names(c))
}

// A catalog of format 1 is read, and is one of the present format after that.
func TestFormat1IsTakenOver(t *testing.T) {
	disk := memfs.New()
	held, gone := uuid.New(), uuid.New()
	content, err := appendFrame([]byte(magic+"\x01\x00\x00\x00"), topicRecord(topic(held, "a", 1)))
	require.NoError(t, err)
	content, err = appendFrame(content, &persistv1.CatalogRecord{Kind: &persistv1.CatalogRecord_RemovedTopicId{RemovedTopicId: gone[:]}})
	require.NoError(t, err)
	file, err := disk.Create(fileName)
	require.NoError(t, err)
	_, err = file.WriteAt(append(content, "torn"...), 0)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	for range 2 {
		c, err := Open(disk, "")
		require.NoError(t, err)
		require.Equal(t, map[string]bool{"a@1": true}, names(c))
		require.True(t, c.Removed(gone))
		require.NoError(t, c.Close())
		disk = disk.Crash(nil)
	}
	file, err = disk.Open(fileName)
	require.NoError(t, err)
	head := make([]byte, unnotedFramesAt)
	_, err = file.ReadAt(head, 0)
	require.NoError(t, err)
	require.Equal(t, magic+"\x02\x00\x00\x00", string(head))
}
