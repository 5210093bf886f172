package raftlog_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/storage/internal/journal"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
)

// aWorld is a log with a history and nothing under way; its process was killed.
func aWorld(t testing.TB, seed uint64) *world {
	w := newWorld(t, seed)
	for range 20 {
		w.step()
	}
	return w
}

// again opens the log of a process that was killed.
func (w *world) again() (*raftlog.Log, error) {
	w.disk = w.disk.Kill()
	w.files = raftlog.NewFileCache(4)
	w.zeroing = nil
	return raftlog.Open(w.options())
}

// change overwrites a file.
func (w *world) change(name string, edit func([]byte) []byte) {
	name = path.Join(dir, name)
	b := w.read(name)
	f, err := w.disk.Create(name)
	require.NoError(w.t, err)
	_, err = f.WriteAt(edit(b), 0)
	require.NoError(w.t, err)
	require.NoError(w.t, f.Close())
}

func (w *world) read(name string) []byte {
	f, err := w.disk.OpenRead(name)
	require.NoError(w.t, err)
	size, err := f.Size()
	require.NoError(w.t, err)
	b := make([]byte, size)
	if size > 0 {
		_, err = f.ReadAt(b, 0)
		require.NoError(w.t, err)
	}
	require.NoError(w.t, f.Close())
	return b
}

func (w *world) filesOf(suffix string) (names []string) {
	all, err := w.disk.List(dir)
	require.NoError(w.t, err)
	for _, name := range all {
		if strings.HasSuffix(name, suffix) {
			names = append(names, name)
		}
	}
	return names
}

// Whatever happens to whichever file, a log either says that it is damaged or
// answers as it did before; what is derived is made anew.
func TestStrayBytes(t *testing.T) {
	edits := map[string]func(*rand.Rand, []byte) []byte{
		"flip a bit": func(rng *rand.Rand, b []byte) []byte {
			if len(b) > 0 {
				b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
			}
			return b
		},
		"cut": func(rng *rand.Rand, b []byte) []byte { return b[:rng.IntN(len(b)+1)] },
		"append garbage": func(rng *rand.Rand, b []byte) []byte {
			for range 1 + rng.IntN(300) {
				b = append(b, byte(rng.Uint32()))
			}
			return b
		},
		"append zeros": func(rng *rand.Rand, b []byte) []byte { return append(b, make([]byte, rng.IntN(9000))...) },
		"append a part of itself": func(rng *rand.Rand, b []byte) []byte {
			return append(b, b[rng.IntN(len(b)+1):]...)
		},
		"empty": func(*rand.Rand, []byte) []byte { return nil },
	}
	for seed := uint64(1); seed <= fewer(150, 10); seed++ {
		for name, edit := range edits {
			w := aWorld(t, seed)
			files := w.filesOf("")
			file := files[w.rng.IntN(len(files))]
			before := w.read(path.Join(dir, file))
			w.change(file, func(b []byte) []byte { return edit(w.rng, b) })
			w.logf("seed %d: %s of %s", seed, name, file)
			w.check(w.verdict(file, name, len(before)))
		}
	}
}

// verdict opens the log and compares it with the model.
func (w *world) verdict(file, edit string, size int) error {
	log, err := w.again()
	if errors.Is(err, raftlog.ErrDamaged) || errors.Is(err, raftlog.ErrVersion) {
		switch {
		case strings.HasSuffix(file, ".index"):
			return fmt.Errorf("an index is no reason: %w", err)
		case strings.HasPrefix(edit, "append") && (!w.replicated || file == journal.Name) && edit != "append a part of itself":
			return fmt.Errorf("bytes at the end are no reason: %w", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	// A note that is gone tells of fewer committed entries, and no more.
	hard, _, err := log.InitialState()
	if err != nil {
		return err
	}
	if hard.GetCommit() > w.model.commit {
		return fmt.Errorf("commit index %d, expected %d at most", hard.GetCommit(), w.model.commit)
	}
	w.model.commit = hard.GetCommit()
	err = w.model.compare(log)
	if errors.Is(err, raftlog.ErrDamaged) && strings.HasSuffix(file, ".log") {
		if log.Damage() == nil {
			return fmt.Errorf("damage was not noted: %w", err)
		}
		return nil
	}
	return err
}

func TestLostFiles(t *testing.T) {
	for seed := uint64(1); seed <= fewer(20, 4); seed++ {
		for _, suffix := range []string{".log", ".index", journal.Name} {
			w := aWorld(t, seed)
			names := w.filesOf(suffix)
			if len(names) == 0 {
				continue
			}
			require.NoError(t, w.disk.Remove(path.Join(dir, names[w.rng.IntN(len(names))])))
			log, err := w.again()
			if suffix == ".index" {
				require.NoError(t, err)
				w.check(w.model.compare(log))
				continue
			}
			if suffix == journal.Name && w.model.next() == 0 {
				continue // nothing was ever written
			}
			require.ErrorIs(t, err, raftlog.ErrDamaged)
			require.NotErrorIs(t, err, fs.ErrNotExist)
			_, err = raftlog.Create(w.options(), raftlog.Bootstrap{ConfState: confState(1)})
			require.Error(t, err, "what is damaged must not be made anew")
		}
	}
}

func TestAbsentAndTwice(t *testing.T) {
	w := newWorld(t, 1)
	o := w.options()
	o.Dir = "/data/other"
	_, err := raftlog.Open(o)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = raftlog.Create(w.options(), raftlog.Bootstrap{ConfState: confState(1)})
	require.ErrorIs(t, err, fs.ErrExist)
}

func TestNewerVersionIsRefused(t *testing.T) {
	w := aWorld(t, 3)
	w.change(journal.Name, func(b []byte) []byte {
		binary.LittleEndian.PutUint32(b[8:], 2)
		sum := crc32.Checksum(b[:20], crc32.MakeTable(crc32.Castagnoli))
		binary.LittleEndian.PutUint32(b[20:], sum)
		return b
	})
	_, err := w.again()
	require.ErrorIs(t, err, raftlog.ErrVersion)
	require.NotErrorIs(t, err, raftlog.ErrDamaged)
}

// A bad batch in the middle of a segment is never served, the batches of other
// segments are.
func TestBadBatchIsNotServed(t *testing.T) {
	w := newWorld(t, 1)
	w.limits = raftlog.Limits{SegmentBytes: 400, SegmentMs: 1 << 40, IndexInterval: 100}
	require.NoError(t, w.log.Write(inTerm(2, 2)))
	for i := range 12 {
		b := batch(t, int64(i), 2, []byte("some value to fill the batch with"), int64(i))
		require.NoError(t, w.log.Write(raftlog.Write{Entries: []*raftpb.Entry{entryOf(uint64(3+i), 2, b)}, Payloads: [][]byte{b}}))
	}
	require.NoError(t, w.log.Close(&raftlog.Point{Applied: 2, ConfState: confState(1)}))
	names := w.filesOf(".log")
	require.Greater(t, len(names), 2)
	w.change(names[0], func(b []byte) []byte { b[len(b)/2] ^= 1; return b })

	log, err := w.again()
	require.NoError(t, err, "a clean stop reads nothing")
	require.NoError(t, log.Damage())
	c, err := log.Read(0, log.NextOffset(), 1)
	require.NoError(t, err)
	require.Equal(t, int64(1), c.Next)
	for at := c.Next; err == nil; at = c.Next {
		c, err = log.Read(at, log.NextOffset(), 1)
	}
	require.ErrorIs(t, err, raftlog.ErrDamaged)
	require.ErrorIs(t, log.Damage(), raftlog.ErrDamaged)
	second := log.Stats().Segments[1]
	c, err = log.Read(second.Base, log.NextOffset(), 1000)
	require.NoError(t, err)
	require.Equal(t, second.Next, c.Next)
}

// A crash in the middle of a roll leaves a log file that the journal does not
// know. Bytes in it that are no batch are nobody's; a batch proves that the
// journal has lost something.
func TestUnknownSegment(t *testing.T) {
	for name, c := range map[string]struct {
		content func(next int64) []byte
		damaged bool
	}{
		"empty":   {content: func(int64) []byte { return nil }},
		"zeros":   {content: func(int64) []byte { return make([]byte, 5000) }},
		"garbage": {content: func(int64) []byte { return []byte(strings.Repeat("garbage", 100)) }},
		"another offset's batch": {content: func(next int64) []byte {
			return batch(t, next+1, 2, []byte("x"), 1)
		}},
		"a batch": {content: func(next int64) []byte { return batch(t, next, 2, []byte("x"), 1) }, damaged: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := aWorld(t, 5)
			next := w.model.next()
			file := segment.LogName(next)
			if len(w.filesOf(file)) > 0 {
				t.Fatalf("history 5 has a segment at its end, %d", next)
			}
			f, err := w.disk.Create(path.Join(dir, file))
			require.NoError(t, err)
			require.NoError(t, f.Close())
			w.change(file, func([]byte) []byte { return c.content(next) })
			log, err := w.again()
			if c.damaged {
				require.ErrorIs(t, err, raftlog.ErrDamaged)
				return
			}
			require.NoError(t, err)
			require.Equal(t, next, log.NextOffset())
			require.Empty(t, w.filesOf(file))
		})
	}
}
