package catalog

import (
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

func topic(id uuid.UUID, name string, version int64) *persistv1.CatalogTopic {
	return &persistv1.CatalogTopic{TopicId: id[:], Name: name, ConfigVersion: version}
}

// names are the topics of a catalog as "name@version".
func names(c *Catalog) map[string]bool {
	set := map[string]bool{}
	for _, topic := range c.Topics() {
		set[fmt.Sprintf("%s@%d", topic.GetName(), topic.GetConfigVersion())] = true
	}
	return set
}

func TestLastRecordOfATopicCounts(t *testing.T) {
	fsys := memfs.New()
	c, err := Open(fsys, "")
	require.NoError(t, err)
	a, b := uuid.New(), uuid.New()
	require.NoError(t, c.Put(topic(a, "a", 1), topic(b, "b", 1)))
	require.NoError(t, c.Put(topic(a, "a", 2)))
	require.NoError(t, c.Remove(9, []uuid.UUID{b}, nil))
	require.NoError(t, c.Close())

	c, err = Open(fsys, "")
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"a@2": true}, names(c))
	require.NoError(t, c.Close())
}

// What is to be deleted from cold storage is known until it is gone, over crashes
// and over a catalog that is written anew; to remove it once more changes nothing.
func TestRemovedTopicsInColdStorage(t *testing.T) {
	fsys := memfs.New()
	c, err := Open(fsys, "")
	require.NoError(t, err)
	kept, gone, never, live := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	require.NoError(t, c.Put(topic(kept, "kept", 1), topic(gone, "gone", 1), topic(never, "never", 1)))
	require.NoError(t, c.Remove(1, []uuid.UUID{kept, gone, never}, []uuid.UUID{kept, gone}))
	require.ElementsMatch(t, []uuid.UUID{kept, gone}, c.ColdTopics())
	require.NoError(t, c.ColdGone(gone))
	require.NoError(t, c.Remove(2, []uuid.UUID{gone}, []uuid.UUID{gone}))
	check := func() {
		require.Equal(t, []uuid.UUID{kept}, c.ColdTopics())
		for _, id := range []uuid.UUID{kept, gone, never} {
			require.True(t, c.Removed(id))
		}
	}
	check()
	fsys = fsys.Crash(rand.New(rand.NewPCG(1, 1)))
	c, err = Open(fsys, "")
	require.NoError(t, err)
	check()

	large := topic(live, "live", 1)
	large.Config = map[string]string{"note": strings.Repeat("n", rewriteFrom/3)}
	for range 12 {
		require.NoError(t, c.Put(large))
	}
	require.NoError(t, c.Close())
	c, err = Open(fsys, "")
	require.NoError(t, err)
	require.Less(t, c.mu.size, int64(rewriteFrom), "it was written anew")
	check()
	require.NoError(t, c.Close())
}

func TestAcknowledgedSurvivesACrash(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fsys := memfs.New()
		want := map[string]bool{}
		for generation := range 3 {
			c, err := Open(fsys, "")
			require.NoError(t, err)
			require.Equal(t, want, names(c))
			for i := range rng.IntN(4) {
				id := uuid.New()
				name := fmt.Sprintf("t%d-%d", generation, i)
				require.NoError(t, c.Put(topic(id, name, 1)))
				want[name+"@1"] = true
			}
			fsys = fsys.Crash(rng)
		}
	}
}

// A power cut in the write of several topics may keep any of their sectors: a later
// topic and not an earlier one, too. Nothing was acknowledged, so it is no damage.
func TestTornPutOfSeveralTopicsIsCut(t *testing.T) {
	for seed := range uint64(200) {
		disk := memfs.New()
		armed, after := false, (*memfs.FS)(nil)
		c, err := Open(faultfs.New(disk, func(op faultfs.Op, _ string) error {
			if armed && op == faultfs.Datasync {
				after = disk.Crash(rand.New(rand.NewPCG(seed, 3)))
			}
			return nil
		}), "")
		require.NoError(t, err)
		armed = true
		long := strings.Repeat("n", 700) // over a sector
		require.NoError(t, c.Put(topic(uuid.New(), long, 1), topic(uuid.New(), long+"2", 1), topic(uuid.New(), long+"3", 1)))
		require.NoError(t, c.Close())

		c, err = Open(after, "")
		require.NoError(t, err, "seed %d", seed)
		require.Contains(t, []int{0, 3}, len(c.Topics()), "all of a change is there or nothing")
		require.NoError(t, c.Close())
	}
}

// A kill may leave a record in the page cache alone. Placing the topic again then
// changes nothing, so nobody but Open can make it durable.
func TestWhatOpenFindsIsDurable(t *testing.T) {
	disk := memfs.New()
	var killed *memfs.FS
	c, err := Open(faultfs.New(disk, func(op faultfs.Op, _ string) error {
		if op == faultfs.Datasync {
			killed = disk.Kill()
		}
		return nil
	}), "")
	require.NoError(t, err)
	require.NoError(t, c.Put(topic(uuid.New(), "a", 1)))
	require.NoError(t, c.Close())

	c, err = Open(killed, "")
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"a@1": true}, names(c))
	require.NoError(t, c.Close())
	c, err = Open(killed.Crash(nil), "")
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"a@1": true}, names(c))
	require.NoError(t, c.Close())
}

func TestTornTailIsCutAndDamageIsTold(t *testing.T) {
	fsys := memfs.New()
	c, err := Open(fsys, "")
	require.NoError(t, err)
	require.NoError(t, c.Put(topic(uuid.New(), "a", 1)))
	first := c.mu.size
	note := noteOf(t, fsys)
	require.NoError(t, c.Put(topic(uuid.New(), "b", 1)))
	last := c.mu.size
	require.NoError(t, c.Close())

	t.Run("torn", func(t *testing.T) {
		for cut := first; cut < last; cut++ {
			torn := copyOf(t, fsys)
			require.NoError(t, truncate(torn, cut))
			// As a power cut in the last write leaves it.
			require.NoError(t, write(torn, note, noteAt))
			c, err := Open(torn, "")
			require.NoError(t, err, "cut at %d", cut)
			require.Equal(t, map[string]bool{"a@1": true}, names(c))
			require.NoError(t, c.Put(topic(uuid.New(), "c", 1)))
			require.NoError(t, c.Close())
			c, err = Open(torn, "")
			require.NoError(t, err)
			require.Equal(t, map[string]bool{"a@1": true, "c@1": true}, names(c))
			require.NoError(t, c.Close())
		}
	})
	t.Run("damaged", func(t *testing.T) {
		for at := int64(framesAt); at < last; at++ {
			damaged := copyOf(t, fsys)
			require.NoError(t, flip(damaged, at))
			_, err := Open(damaged, "")
			require.ErrorIs(t, err, ErrDamaged, "flipped byte %d", at)
			if at >= first {
				continue
			}
			// The note is lost, and a good frame follows.
			require.NoError(t, flip(damaged, noteAt))
			_, err = Open(damaged, "")
			require.ErrorIs(t, err, ErrDamaged, "flipped byte %d", at)
		}
		for cut := int64(framesAt); cut < last; cut++ {
			damaged := copyOf(t, fsys)
			require.NoError(t, truncate(damaged, cut))
			_, err := Open(damaged, "")
			require.ErrorIs(t, err, ErrDamaged, "cut at %d what was synced", cut)
		}
	})
	t.Run("newer format", func(t *testing.T) {
		newer := copyOf(t, fsys)
		require.NoError(t, flip(newer, int64(len(magic))))
		_, err := Open(newer, "")
		require.ErrorContains(t, err, "this version reads 1 and 2")
	})
}

func copyOf(t *testing.T, fsys vfs.FS) vfs.FS {
	t.Helper()
	from, err := fsys.Open(fileName)
	require.NoError(t, err)
	size, err := from.Size()
	require.NoError(t, err)
	content := make([]byte, size)
	_, err = from.ReadAt(content, 0)
	require.NoError(t, err)
	to := memfs.New()
	file, err := to.Create(fileName)
	require.NoError(t, err)
	_, err = file.WriteAt(content, 0)
	require.NoError(t, err)
	return to
}

func truncate(fsys vfs.FS, size int64) error {
	file, err := fsys.Open(fileName)
	if err != nil {
		return err
	}
	return file.Truncate(size)
}

func write(fsys vfs.FS, b []byte, at int64) error {
	file, err := fsys.Open(fileName)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(b, at)
	return err
}

func noteOf(t *testing.T, fsys vfs.FS) []byte {
	t.Helper()
	file, err := fsys.Open(fileName)
	require.NoError(t, err)
	note := make([]byte, noteSize)
	_, err = file.ReadAt(note, noteAt)
	require.NoError(t, err)
	return note
}

func flip(fsys vfs.FS, at int64) error {
	file, err := fsys.Open(fileName)
	if err != nil {
		return err
	}
	b := []byte{0}
	if _, err := file.ReadAt(b, at); err != nil {
		return err
	}
	b[0] ^= 0x40
	_, err = file.WriteAt(b, at)
	return err
}
