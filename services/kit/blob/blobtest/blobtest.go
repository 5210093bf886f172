// Package blobtest is what every blob.Store must do, as tests.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/blob"
)

// Run runs the suite. empty returns an empty store, which the test may use until
// its end.
func Run(t *testing.T, empty func(t *testing.T) blob.Store) {
	t.Helper()
	for _, c := range []struct {
		name string
		body func(t *testing.T, store blob.Store)
	}{
		{"names", testNames},
		{"invalid names", testInvalidNames},
		{"ranges", testRanges},
		{"empty object", testEmpty},
		{"missing", testMissing},
		{"overwrite", testOverwrite},
		{"list", testList},
		{"list stops", testListStops},
		{"list of many", testListOfMany},
		{"checksum", testChecksum},
		{"short source", testShortSource},
		{"half written", testHalfWritten},
		{"cancelled", testCancelled},
		{"cancelled half way", testCancelledHalfWay},
		{"concurrent", testConcurrent},
	} {
		t.Run(c.name, func(t *testing.T) { c.body(t, empty(t)) })
	}
}

// Put stores an object from memory.
func Put(t testing.TB, store blob.Store, name string, data []byte) {
	t.Helper()
	require.NoError(t, put(t.Context(), store, name, data))
}

func put(ctx context.Context, store blob.Store, name string, data []byte) error {
	return store.Put(ctx, name, bytes.NewReader(data), int64(len(data)), Checksum(data))
}

// Get reads a whole object of fewer than 1 MiB.
func Get(t testing.TB, store blob.Store, name string) []byte {
	t.Helper()
	p := make([]byte, 1<<20)
	n, err := store.ReadAt(t.Context(), name, p, 0)
	require.Equal(t, io.EOF, err)
	return p[:n]
}

// Names are the names of the objects with a prefix, as they are listed.
func Names(t testing.TB, store blob.Store, prefix string) []string {
	t.Helper()
	names := []string{}
	for info, err := range store.List(t.Context(), prefix) {
		require.NoError(t, err)
		names = append(names, info.Name)
	}
	return names
}

func requireMissing(t *testing.T, store blob.Store, name string) {
	t.Helper()
	n, err := store.ReadAt(t.Context(), name, make([]byte, 1), 0)
	require.ErrorIs(t, err, blob.ErrNotFound)
	require.Zero(t, n)
	require.NotContains(t, Names(t, store, ""), name)
}

func testNames(t *testing.T, store blob.Store) {
	names := []string{
		"A", "z.0", "a-b_c.D/0", "a-b_c.D/.hidden", "topics/5f1b/0/00000000000000000042-7-ffffffffffffffff",
		strings.Repeat("x", 200), strings.Repeat(strings.Repeat("y", 100)+"/", 5) + "1234567",
	}
	require.Len(t, names[len(names)-1], 512)
	for _, name := range names {
		Put(t, store, name, []byte("in "+name))
	}
	for _, name := range names {
		require.Equal(t, "in "+name, string(Get(t, store, name)))
		require.Equal(t, []string{name}, Names(t, store, name))
	}
	for _, name := range names {
		require.NoError(t, store.Delete(t.Context(), name))
		requireMissing(t, store, name)
	}
	require.Empty(t, Names(t, store, ""))
}

func testInvalidNames(t *testing.T, store blob.Store) {
	for _, name := range []string{"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../../b", "a\\b", "a b", "a\nb", "~a", "a?b", "a%2fb", "ä", strings.Repeat("x", 513)} {
		require.ErrorIs(t, put(t.Context(), store, name, nil), blob.ErrInvalidName, name)
		_, err := store.ReadAt(t.Context(), name, make([]byte, 1), 0)
		require.ErrorIs(t, err, blob.ErrInvalidName, name)
		require.ErrorIs(t, store.Delete(t.Context(), name), blob.ErrInvalidName, name)
	}
	require.Empty(t, Names(t, store, ""))
}

func testRanges(t *testing.T, store blob.Store) {
	Put(t, store, "o", []byte("0123456789"))
	for _, c := range []struct {
		off  int64
		len  int
		want string
		err  error
	}{
		{0, 10, "0123456789", nil},
		{0, 4, "0123", nil},
		{3, 4, "3456", nil},
		{9, 1, "9", nil},
		{6, 4, "6789", nil},
		{6, 5, "6789", io.EOF},
		{0, 1000, "0123456789", io.EOF},
		{10, 1, "", io.EOF},
		{11, 1, "", io.EOF},
		{1 << 40, 1, "", io.EOF},
		{0, 0, "", nil},
	} {
		p := bytes.Repeat([]byte{'-'}, c.len)
		n, err := store.ReadAt(t.Context(), "o", p, c.off)
		require.Equal(t, c.err, err, "%+v", c)
		require.Equal(t, c.want, string(p[:n]), "%+v", c)
	}
	_, err := store.ReadAt(t.Context(), "o", make([]byte, 1), -1)
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF)
	require.NotErrorIs(t, err, blob.ErrNotFound)
}

func testEmpty(t *testing.T, store blob.Store) {
	Put(t, store, "d/empty", nil)
	require.Empty(t, Get(t, store, "d/empty"))
	for info, err := range store.List(t.Context(), "") {
		require.NoError(t, err)
		require.Equal(t, blob.Info{Name: "d/empty", Modified: info.Modified}, info)
	}
	require.ErrorIs(t, store.Put(t.Context(), "d/e", bytes.NewReader(nil), 0, 1), blob.ErrChecksum)
	requireMissing(t, store, "d/e")
}

func testMissing(t *testing.T, store blob.Store) {
	requireMissing(t, store, "none")
	_, err := store.ReadAt(t.Context(), "none", nil, 0)
	require.ErrorIs(t, err, blob.ErrNotFound)
	require.NoError(t, store.Delete(t.Context(), "none"))
	require.NoError(t, store.Delete(t.Context(), "no/such/folder"))

	Put(t, store, "a/b/c", []byte("c"))
	for _, name := range []string{"a", "a/b", "a/b/c/d", "a/b/x", "a/bb"} {
		_, err := store.ReadAt(t.Context(), name, make([]byte, 1), 0)
		require.ErrorIs(t, err, blob.ErrNotFound, name)
		require.NoError(t, store.Delete(t.Context(), name), name)
	}
	require.Equal(t, "c", string(Get(t, store, "a/b/c")))
}

func testOverwrite(t *testing.T, store blob.Store) {
	for _, data := range []string{"first", "the second is longer", "3", ""} {
		Put(t, store, "a/b", []byte(data))
		require.Equal(t, data, string(Get(t, store, "a/b")))
		require.Equal(t, []string{"a/b"}, Names(t, store, ""))
	}
}

func testList(t *testing.T, store blob.Store) {
	require.Empty(t, Names(t, store, ""))
	require.Empty(t, Names(t, store, "a/"))
	// '-' and '.' sort before the slash, digits and letters after it.
	names := []string{"B", "a-b", "a.b", "a/0", "a/1/x", "a/10", "a/2/y/z", "a0", "aa/x", "ab"}
	require.True(t, slices.IsSorted(names))
	began := time.Now()
	for _, i := range []int{3, 9, 0, 5, 1, 8, 2, 7, 4, 6} {
		Put(t, store, names[i], bytes.Repeat([]byte("x"), i))
	}
	at := 0
	for info, err := range store.List(t.Context(), "") {
		require.NoError(t, err)
		require.Equal(t, names[at], info.Name)
		require.Equal(t, int64(at), info.Size)
		// Another clock may have told the time, and in whole seconds.
		require.WithinRange(t, info.Modified, began.Add(-time.Minute), time.Now().Add(time.Minute))
		at++
	}
	require.Equal(t, len(names), at)
	for prefix, want := range map[string][]string{
		"a":     names[1:],
		"a/":    names[3:7],
		"a/1":   names[4:6],
		"a/1/":  names[4:5],
		"a/10":  names[5:6],
		"a/2/y": names[6:7],
		"ab":    names[9:],
		"abc":   {},
		"c":     {},
		"a/0/":  {},
	} {
		require.Equal(t, want, Names(t, store, prefix), prefix)
	}
}

func testListStops(t *testing.T, store blob.Store) {
	for i := range 5 {
		Put(t, store, fmt.Sprintf("%d/x", i), nil)
	}
	seen := 0
	for info, err := range store.List(t.Context(), "") {
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%d/x", seen), info.Name)
		if seen++; seen == 3 {
			break
		}
	}
	require.Equal(t, 3, seen)
}

func testListOfMany(t *testing.T, store blob.Store) {
	const objects = 1100 // more than S3 lists at once
	var puts sync.WaitGroup
	errs := make([]error, 8)
	for w := range errs {
		puts.Go(func() {
			for i := w; i < objects; i += len(errs) {
				errs[w] = errors.Join(errs[w], put(t.Context(), store, fmt.Sprintf("many/%d/%04d", i%3, i), nil))
			}
		})
	}
	puts.Wait()
	require.NoError(t, errors.Join(errs...))
	names := Names(t, store, "many/")
	require.Len(t, slices.Compact(slices.Clone(names)), objects)
	require.True(t, slices.IsSorted(names))
}

func testChecksum(t *testing.T, store blob.Store) {
	data := []byte("what was meant")
	err := store.Put(t.Context(), "o", bytes.NewReader([]byte("what is spoilt")), int64(len(data)), Checksum(data))
	require.ErrorIs(t, err, blob.ErrChecksum)
	requireMissing(t, store, "o")

	Put(t, store, "o", []byte("old"))
	err = store.Put(t.Context(), "o", bytes.NewReader(data), int64(len(data)), Checksum(data)+1)
	require.ErrorIs(t, err, blob.ErrChecksum)
	require.Equal(t, "old", string(Get(t, store, "o")))
}

func testShortSource(t *testing.T, store blob.Store) {
	data := []byte("short")
	err := store.Put(t.Context(), "o", bytes.NewReader(data), int64(len(data)+1), Checksum(data))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	requireMissing(t, store, "o")

	// What lies behind the size is not the object's.
	require.NoError(t, store.Put(t.Context(), "o", bytes.NewReader(data), 3, Checksum(data[:3])))
	require.Equal(t, "sho", string(Get(t, store, "o")))
}

func testHalfWritten(t *testing.T, store blob.Store) {
	const size = 4 << 20
	for _, before := range []string{"", "before"} {
		name := "half/" + before + "o"
		if before != "" {
			Put(t, store, name, []byte(before))
		}
		broken := errors.New("the source broke")
		src := &Trap{Pattern: Pattern(1), After: size / 2, Do: func() error {
			if before == "" {
				requireMissing(t, store, name)
			} else {
				require.Equal(t, before, string(Get(t, store, name)))
			}
			return broken
		}}
		require.ErrorIs(t, store.Put(t.Context(), name, src, size, src.Checksum(size)), broken)
		require.True(t, src.done)
		if before == "" {
			requireMissing(t, store, name)
		} else {
			require.Equal(t, before, string(Get(t, store, name)))
		}
	}
}

func testCancelled(t *testing.T, store blob.Store) {
	Put(t, store, "there", []byte("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, put(ctx, store, "o", []byte("data")), context.Canceled)
	_, err := store.ReadAt(ctx, "there", make([]byte, 1), 0)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, store.Delete(ctx, "there"), context.Canceled)
	failed := 0
	for _, err := range store.List(ctx, "") {
		require.ErrorIs(t, err, context.Canceled)
		failed++
	}
	require.Equal(t, 1, failed)
	require.Equal(t, []string{"there"}, Names(t, store, ""))
}

func testCancelledHalfWay(t *testing.T, store blob.Store) {
	const size = 4 << 20
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	src := &Trap{Pattern: Pattern(2), After: size / 2, Do: func() error {
		cancel()
		return nil
	}}
	require.ErrorIs(t, store.Put(ctx, "o", src, size, src.Checksum(size)), context.Canceled)
	requireMissing(t, store, "o")
}

func testConcurrent(t *testing.T, store blob.Store) {
	const workers, rounds = 8, 12
	var all sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		all.Go(func() {
			for round := range rounds {
				if err := trip(t.Context(), store, w, round); err != nil {
					errs[w] = err
					return
				}
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, []string{"shared"}, Names(t, store, ""))
	shared := Get(t, store, "shared")
	require.Len(t, shared, 1000)
	require.Equal(t, string(bytes.Repeat(shared[:1], 1000)), string(shared), "one of those that were put, whole")
}

// trip puts, reads, lists and deletes an object of a worker's own, in folders
// that all of them share, and writes one that all of them write.
func trip(ctx context.Context, store blob.Store, worker, round int) error {
	name := fmt.Sprintf("d/%d/%d/o", round, worker)
	data := fmt.Appendf(nil, "%d-%d", worker, round)
	if err := put(ctx, store, name, data); err != nil {
		return err
	}
	if err := put(ctx, store, "shared", bytes.Repeat([]byte{byte('a' + worker)}, 1000)); err != nil {
		return err
	}
	p := make([]byte, 100)
	if n, err := store.ReadAt(ctx, name, p, 0); !errors.Is(err, io.EOF) || !bytes.Equal(p[:n], data) {
		return fmt.Errorf("read %s: %q, %w", name, p[:n], err)
	}
	found := false
	for info, err := range store.List(ctx, "d/") {
		if err != nil {
			return err
		}
		found = found || info.Name == name
	}
	if !found {
		return fmt.Errorf("%s is not listed", name)
	}
	return store.Delete(ctx, name)
}
