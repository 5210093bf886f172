package raftlog_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/faultfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// A start after a clean stop reads the journal and looks at sizes, however much
// the log holds; so does one after a kill of a process whose log slept.
func TestCleanOpenReadsNoRecord(t *testing.T) {
	for _, stop := range []string{"close", "sleep"} {
		w := newWorld(t, 1)
		w.limits = raftlog.Limits{SegmentBytes: 4000, SegmentMs: 1 << 40, IndexInterval: 200}
		require.NoError(t, w.log.Write(inTerm(2, 2)))
		for i := range 100 {
			b := batch(t, int64(i), 2, make([]byte, 100), int64(i))
			require.NoError(t, w.log.Write(raftlog.Write{Entries: one(entryOf(uint64(3+i), 2, b)), Payloads: [][]byte{b}, Commit: uint64(3 + i)}))
		}
		point := raftlog.Point{Applied: 102, ConfState: confState(1, 2), State: []byte("state")}
		if stop == "close" {
			require.NoError(t, w.log.Close(&point))
		} else {
			require.NoError(t, w.log.Sleep(point))
		}
		segments := len(w.filesOf(".log"))
		require.Greater(t, segments, 3)

		counts := map[faultfs.Op]int{}
		o := w.options()
		o.FS = faultfs.New(w.disk.Kill(), func(op faultfs.Op, name string) error { counts[op]++; return nil })
		o.Files = raftlog.NewFileCache(4)
		log, err := raftlog.Open(o)
		require.NoError(t, err)
		require.Equal(t, map[faultfs.Op]int{
			faultfs.OpenRead: 1, faultfs.Size: 1, faultfs.ReadAt: 1, faultfs.Close: 1, // the journal
			faultfs.List: 1, faultfs.Stat: segments + 2, // and the two folders of a snapshot
		}, counts, stop)
		r := log.Recovered()
		require.True(t, r.Clean)
		require.Equal(t, uint64(102), r.Applied)
		require.Equal(t, "state", string(r.State))
		require.Nil(t, log.Recovered().State, "it may be large and is handed out once")
		require.Equal(t, int64(100), log.NextOffset())
		require.Zero(t, o.Files.Len())
	}
}

// A log that sleeps holds no handle, and wakes by itself.
func TestSleepGivesHandlesBack(t *testing.T) {
	mem := memfs.New()
	require.NoError(t, mem.MkdirAll("/data"))
	open := map[string]int{}
	count := countingFS{mem, open}
	files := raftlog.NewFileCache(10)
	log, err := raftlog.Create(raftlog.Options{FS: count, Dir: dir, Files: files}, raftlog.Bootstrap{ConfState: confState(1)})
	require.NoError(t, err)
	for i := range 3 {
		require.NoError(t, log.Write(inTerm(uint64(2+i), uint64(2+2*i))))
		b := batch(t, int64(i), int32(2+i), nil, 1)
		require.NoError(t, log.Write(raftlog.Write{Entries: one(entryOf(uint64(3+2*i), uint64(2+i), b)), Payloads: [][]byte{b}}))
		c, err := log.Read(int64(i), int64(i+1), 100)
		require.NoError(t, err)
		require.Equal(t, b, c.Bytes)
		require.NotEmpty(t, open)
		require.NoError(t, log.Sleep(raftlog.Point{Applied: uint64(2 + i), ConfState: confState(1)}))
		require.Empty(t, open)
		require.Zero(t, files.Len())
	}
	c, err := log.Read(0, 3, 1000)
	require.NoError(t, err)
	require.Equal(t, int64(3), c.Next)
	require.NoError(t, log.Close(nil))
	require.Empty(t, open)
	_, err = log.Read(0, 3, 1000)
	require.ErrorIs(t, err, raftlog.ErrClosed)
	require.ErrorIs(t, log.Write(raftlog.Write{}), raftlog.ErrClosed)
}

// countingFS counts what is open.
type countingFS struct {
	vfs.FS
	open map[string]int
}

type countedFile struct {
	vfs.File
	closed func()
}

func (c countingFS) count(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	c.open[name]++
	return countedFile{f, func() {
		if c.open[name]--; c.open[name] == 0 {
			delete(c.open, name)
		}
	}}, nil
}

func (c countingFS) Create(name string) (vfs.File, error) {
	f, err := c.FS.Create(name)
	return c.count(name, f, err)
}

func (c countingFS) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	return c.count(name, f, err)
}

func (c countingFS) OpenRead(name string) (vfs.File, error) {
	f, err := c.FS.OpenRead(name)
	return c.count(name, f, err)
}

func (f countedFile) Close() error {
	f.closed()
	return f.File.Close()
}

// What thousands of logs cost that nobody uses.
func TestSleepingLogIsSmall(t *testing.T) {
	const logs = 40
	root := t.TempDir()
	files := raftlog.NewFileCache(10)
	options := func(i int) raftlog.Options {
		return raftlog.Options{FS: vfs.OS, Dir: fmt.Sprintf("%s/%d", root, i), Files: files}
	}
	for i := range logs {
		log, err := raftlog.Create(options(i), raftlog.Bootstrap{ConfState: confState(1)})
		require.NoError(t, err)
		require.NoError(t, log.Write(inTerm(2, 2)))
		b := batch(t, 0, 2, nil, 1)
		require.NoError(t, log.Write(raftlog.Write{Entries: one(entryOf(3, 2, b)), Payloads: [][]byte{b}}))
		require.NoError(t, log.Close(&raftlog.Point{Applied: 2, ConfState: confState(1)}))
	}
	before := heap()
	open := make([]*raftlog.Log, logs)
	for i := range open {
		log, err := raftlog.Open(options(i))
		require.NoError(t, err)
		log.Recovered()
		open[i] = log
	}
	each := (heap() - before) / logs
	require.Less(t, each, int64(2<<10), "bytes for each log")
	t.Logf("%d bytes for each log", each)
	runtime.KeepAlive(open)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkOpen is a start after a clean stop.
func BenchmarkOpen(b *testing.B) {
	o := raftlog.Options{FS: vfs.OS, Dir: b.TempDir() + "/p", Files: raftlog.NewFileCache(10)}
	log, err := raftlog.Create(o, raftlog.Bootstrap{ConfState: confState(1)})
	require.NoError(b, err)
	require.NoError(b, log.Write(inTerm(2, 2)))
	require.NoError(b, log.Close(&raftlog.Point{Applied: 2, ConfState: confState(1)}))
	b.ReportAllocs()
	for b.Loop() {
		log, err := raftlog.Open(o)
		require.NoError(b, err)
		require.True(b, log.Recovered().Clean)
	}
}

// A start after a kill reads what was written after the last entry of the index,
// and not the segment: a node with many partitions would read all of their last
// segments.
func TestOpenAfterAKillReadsTheTailAlone(t *testing.T) {
	w := newWorld(t, 1)
	w.limits = raftlog.Limits{SegmentBytes: 1 << 30, SegmentMs: 1 << 40, IndexInterval: 4096}
	require.NoError(t, w.log.Write(inTerm(2, 2)))
	for i := range 4000 {
		b := batch(t, int64(i), 2, make([]byte, 1000), int64(i))
		require.NoError(t, w.log.Write(raftlog.Write{Entries: one(entryOf(uint64(3+i), 2, b)), Payloads: [][]byte{b}, Commit: uint64(3 + i)}))
	}
	size, err := w.disk.Stat(dir + "/00000000000000000000.log")
	require.NoError(t, err)
	require.Greater(t, size.Size, int64(4<<20))

	read := new(atomic.Int64)
	o := w.options()
	o.FS, o.Files = readingFS{w.disk.Kill(), read}, raftlog.NewFileCache(4)
	log, err := raftlog.Open(o)
	require.NoError(t, err)
	require.Equal(t, int64(4000), log.NextOffset())
	// As much as the index entries that were not in the file yet stand for.
	require.Less(t, read.Load(), size.Size/4)
}

// readingFS counts the bytes that are read.
type readingFS struct {
	vfs.FS
	read *atomic.Int64
}

type readingFile struct {
	vfs.File
	read *atomic.Int64
}

func (f readingFS) Open(name string) (vfs.File, error) { return f.counted(f.FS.Open(name)) }

func (f readingFS) OpenRead(name string) (vfs.File, error) { return f.counted(f.FS.OpenRead(name)) }

func (f readingFS) counted(file vfs.File, err error) (vfs.File, error) {
	return readingFile{file, f.read}, err
}

func (f readingFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	f.read.Add(int64(n))
	return n, err
}
