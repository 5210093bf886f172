package dir_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluiceio/sluice/services/kit/blob"
	"github.com/sluiceio/sluice/services/kit/blob/blobtest"
	"github.com/sluiceio/sluice/services/kit/blob/dir"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
)

// Whatever the moment of a power cut, an object is there as the last Put that
// returned left it, or as one that was under way would have; and one that was
// deleted is gone.
func TestPowerCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fsys := memfs.New()
		known := map[string][]byte{}
		for range rapid.IntRange(1, 4).Draw(t, "lives") {
			fsys = live(t, fsys, known)
		}
	})
}

var errCut = errors.New("the power is cut")

// live does operations until the power is cut, in the middle of one or between
// two, and returns what is left after it was compared with what is known.
func live(t *rapid.T, fsys *memfs.FS, known map[string][]byte) *memfs.FS {
	cut := rapid.IntRange(1, 60).Draw(t, "cut")
	ops := 0
	store := dir.New(faultfs.New(fsys, func(op faultfs.Op, _ string) error {
		if ops++; ops > cut && op != faultfs.Close {
			return errCut
		}
		return nil
	}), "/mnt/cold")
	names := []string{"a/0", "a/1", "b/c/0", "d"}
	var name string
	var unsure []byte
	for made := 0; ; made++ {
		name = rapid.SampledFrom(names).Draw(t, "name")
		unsure = nil
		var err error
		if rapid.Bool().Draw(t, "delete") {
			err = store.Delete(t.Context(), name)
			if err == nil {
				delete(known, name)
			}
		} else {
			unsure = fmt.Appendf(nil, "%d of %d of %s", made, cut, name)
			unsure = append(unsure, bytes.Repeat([]byte{'.'}, rapid.IntRange(0, 3000).Draw(t, "size"))...)
			err = store.Put(t.Context(), name, bytes.NewReader(unsure), int64(len(unsure)), blobtest.Checksum(unsure))
			if err == nil {
				known[name] = unsure
			}
		}
		if err != nil {
			require.ErrorIs(t, err, errCut)
			break
		}
	}
	after := fsys.Crash(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "rng"), 0)))
	found := contents(t, dir.New(after, "/mnt/cold"))
	if got, there := found[name]; there != (known[name] != nil) || !bytes.Equal(got, known[name]) {
		// The one that was under way.
		if unsure == nil {
			require.False(t, there, "%s was being deleted and is %q", name, got)
			delete(known, name)
		} else {
			require.Equal(t, string(unsure), string(got), name)
			known[name] = unsure
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(found)))
	for name, want := range known {
		require.Equal(t, string(want), string(found[name]), name)
	}
	return after
}

func contents(t *rapid.T, store blob.Store) map[string][]byte {
	found := map[string][]byte{}
	for info, err := range store.List(t.Context(), "") {
		require.NoError(t, err)
		p := make([]byte, info.Size)
		if _, err := store.ReadAt(t.Context(), info.Name, p, 0); !errors.Is(err, io.EOF) {
			require.NoError(t, err)
		}
		found[info.Name] = p
	}
	return found
}
