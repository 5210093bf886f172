package raftlog_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/kit/vfs"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
	"github.com/sluiceio/sluice/services/storage/internal/raftlog"
)

// nullFS makes writes and syncs free, so that what remains is the log's own.
type nullFS struct{ vfs.FS }

type nullFile struct{ vfs.File }

func (n nullFS) Create(name string) (vfs.File, error) { return null(n.FS.Create(name)) }
func (n nullFS) Open(name string) (vfs.File, error)   { return null(n.FS.Open(name)) }

func null(f vfs.File, err error) (vfs.File, error) { return nullFile{f}, err }

func (nullFile) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }
func (nullFile) Datasync() error                        { return nil }
func (nullFile) WritevAt(bufs [][]byte, _ int64) (n int, err error) {
	for _, b := range bufs {
		n += len(b)
	}
	return n, nil
}

// BenchmarkWrite is an append of batches of 1 KiB, so many in a write.
func BenchmarkWrite(b *testing.B) {
	mem := memfs.New()
	require.NoError(b, mem.MkdirAll("/data"))
	for _, batches := range []int{1, 64} {
		b.Run(fmt.Sprintf("null/%d", batches), func(b *testing.B) { benchmarkWrite(b, nullFS{mem}, fmt.Sprintf("/data/%d-%d", batches, b.N), batches) })
		b.Run(fmt.Sprintf("os/%d", batches), func(b *testing.B) { benchmarkWrite(b, vfs.OS, b.TempDir()+"/p", batches) })
	}
}

func benchmarkWrite(b *testing.B, fsys vfs.FS, dir string, batches int) {
	log, err := raftlog.Create(raftlog.Options{
		FS: fsys, Dir: dir, Files: raftlog.NewFileCache(10), Scheduler: func(f func()) { go f() },
	}, raftlog.Bootstrap{ConfState: confState(1)})
	require.NoError(b, err)
	require.NoError(b, log.Write(inTerm(2, 2)))
	w := raftlog.Write{}
	for range batches {
		payload := batch(b, 0, 2, make([]byte, 950), 1_700_000_000_000)
		w.Payloads = append(w.Payloads, payload)
		w.Entries = append(w.Entries, nil)
	}
	index, offset := uint64(3), int64(0)
	b.SetBytes(int64(batches * len(w.Payloads[0])))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		headers := make([]byte, batches*recordbatch.HeaderSize)
		entries := make([]raftpb.Entry, batches)
		for i := range batches {
			recordbatch.Stamp(w.Payloads[i], offset, 2)
			data := headers[i*recordbatch.HeaderSize:][:recordbatch.HeaderSize:recordbatch.HeaderSize]
			copy(data, w.Payloads[i])
			entries[i].Index, entries[i].Term, entries[i].Type, entries[i].Data = new(index), new(uint64(2)), raftpb.EntryNormal.Enum(), data
			w.Entries[i] = &entries[i]
			index++
			offset++
		}
		w.Commit = index - 2
		b.StartTimer()
		if err := log.Write(w); err != nil {
			b.Fatal(err)
		}
		log.Release(index - 1)
	}
}
