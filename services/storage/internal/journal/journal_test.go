package journal

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	persistv1 "github.com/sluiceio/sluice/gen/go/sluice/persist/v1"
	"github.com/sluiceio/sluice/services/kit/vfs/memfs"
)

const dir = "/p"

func entry(index, term uint64, data string, offset int64) Record {
	e := &raftpb.Entry{Index: new(index), Term: new(term), Type: raftpb.EntryNormal.Enum()}
	if data != "" {
		e.Data = []byte(data)
	}
	return EntryRecord(e, offset)
}

func ended(s Segment, size, next int64, nextIndex uint64) Segment {
	s.Size, s.NextOffset, s.NextIndex, s.MaxTimestamp, s.MaxTimestampOffset = size, next, nextIndex, 7, s.Base
	return s
}

// aHistory has a record of every kind but tables.
func aHistory(t testing.TB) []Record {
	first := ended(newSegment(0, 2), 100, 10, 5)
	second := ended(newSegment(10, 5), 50, 15, 7)
	point, err := Point(5, &raftpb.ConfState{Voters: []uint64{1, 2}}, []byte("state"), 5, 10)
	require.NoError(t, err)
	return []Record{
		HardState(&raftpb.HardState{Term: new(uint64(2)), Vote: new(uint64(1)), Commit: new(uint64(1))}),
		entry(2, 2, "", 0),
		SegmentStart(first, 5),
		entry(7, 2, "command", 15),
		CutBegin(Cut{Index: 7, Base: 10, Position: 50, NextOffset: 15}),
		CutDone(second),
		entry(7, 3, "", 15),
		point,
		Checkpoint(second),
	}
}

func open(t testing.TB, fsys *memfs.FS) (*Journal, *Table, Note, int64) {
	j, table, note, torn, err := Open(fsys, dir)
	require.NoError(t, err)
	return j, table, note, torn
}

func newDisk(t testing.TB) (*memfs.FS, *Journal) {
	disk := memfs.New()
	require.NoError(t, disk.MkdirAll(dir))
	require.NoError(t, disk.SyncDir("/"))
	j, err := Create(disk, dir, Bootstrap(&raftpb.ConfState{Voters: []uint64{1}}), Note{Commit: 1})
	require.NoError(t, err)
	return disk, j
}

func TestReplayIsTheFold(t *testing.T) {
	disk, j := newDisk(t)
	want := Bootstrap(&raftpb.ConfState{Voters: []uint64{1}})
	for _, r := range aHistory(t) {
		require.NoError(t, j.Append(r))
		require.NoError(t, want.Apply(r))
		require.NoError(t, j.SetNote(10, 50, 4))
		_, got, note, torn := open(t, disk.Crash(nil))
		requireSame(t, want, got)
		require.Zero(t, torn)
		require.LessOrEqual(t, note.Commit, uint64(4))
	}
	require.True(t, want.Clean)
	require.Equal(t, []Span{{2, 2, 0}, {3, 7, 15}}, want.Spans)
	require.Equal(t, uint64(5), want.FirstIndex)
	require.Len(t, want.Segments, 1)

	require.NoError(t, j.Compact())
	_, got, note, _ := open(t, disk.Crash(nil))
	require.False(t, got.Clean, "a compaction is no clean stop")
	got.Clean = true
	requireSame(t, want, got)
	require.Equal(t, uint64(4), note.Commit, "the note is written anew with the file")
}

func requireSame(t testing.TB, want, got *Table) {
	t.Helper()
	require.True(t, proto.Equal(want.Hard, got.Hard))
	require.True(t, proto.Equal(want.ConfState, got.ConfState))
	require.Len(t, got.Entries, len(want.Entries))
	for i, e := range want.Entries {
		require.True(t, proto.Equal(e.Entry, got.Entries[i].Entry))
		require.Equal(t, e.Offset, got.Entries[i].Offset)
	}
	w, g := *want, *got
	w.Hard, w.ConfState, w.Entries, g.Hard, g.ConfState, g.Entries = nil, nil, nil, nil, nil, nil
	require.Equal(t, w, g)
}

// Every cut and every flipped bit of a journal whose note is exact: what was
// synced is there, or the journal says that it is damaged.
func TestTornAndDamaged(t *testing.T) {
	disk, j := newDisk(t)
	ends := []int64{j.note.end}
	for _, r := range aHistory(t) {
		require.NoError(t, j.Append(r))
		ends = append(ends, j.note.end)
	}
	whole := contents(t, disk)
	for size := framesAt; size < len(whole)-frameAlign; size++ {
		_, err := replay(whole[:size])
		require.ErrorIs(t, err, ErrDamaged, "cut to %d", size)
		// Without the note the same is a torn tail, at the end of a frame.
		b := append([]byte(nil), whole[:size]...)
		clear(b[noteAt:framesAt])
		r, err := replay(b)
		if err != nil {
			require.ErrorIs(t, err, ErrDamaged)
			require.Less(t, int64(size), ends[0], "only the first frame is needed")
			continue
		}
		require.Contains(t, ends, r.end)
	}
	for at := framesAt; at < len(whole); at++ {
		b := append([]byte(nil), whole...)
		b[at] ^= 0x10
		r, err := replay(b)
		if err == nil { // padding
			require.Equal(t, ends[len(ends)-1], r.end)
			continue
		}
		require.ErrorIs(t, err, ErrDamaged, "flipped at %d", at)
		clear(b[noteAt:framesAt])
		if _, err := replay(b); int64(at) < ends[len(ends)-2] {
			require.ErrorIs(t, err, ErrDamaged, "a good frame follows the bad one at %d", at)
		}
	}
}

func contents(t testing.TB, disk *memfs.FS) []byte {
	f, err := disk.OpenRead(dir + "/" + Name)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	b := make([]byte, size)
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	return b
}

// A torn tail is gone before anything is appended.
func TestTornTailIsCut(t *testing.T) {
	disk, j := newDisk(t)
	f, err := disk.Open(dir + "/" + Name)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("half a frame, longer than the next"), j.note.end)
	require.NoError(t, err)
	j, _, _, torn := open(t, disk.Kill())
	require.Equal(t, int64(34), torn)
	require.NoError(t, j.Append(aHistory(t)[0]))
	b := contents(t, j.fs.(*memfs.FS))
	require.Len(t, b, int(j.note.end))
}

// Bytes that somebody got into a record are not taken for a frame.
func TestFrameWithinAFrameIsNone(t *testing.T) {
	disk, j := newDisk(t)
	_, other := newDisk(t)
	inner, err := other.salt.appendFrame(nil, aHistory(t)[:1])
	require.NoError(t, err)
	end := j.note.end
	require.NoError(t, j.Append(entry(2, 2, string(inner), 0)))
	b := contents(t, disk)
	clear(b[noteAt:framesAt])
	b[end] ^= 1 // the outer frame is torn
	for shift := range int(frameAlign) {
		moved := append(append(b[:end:end], make([]byte, shift)...), b[end:]...)
		r, err := replay(moved)
		require.NoError(t, err)
		require.Equal(t, end, r.end)
	}
}

func TestGrowsAndIsCompacted(t *testing.T) {
	disk, j := newDisk(t)
	for i := range 200 {
		point, err := Point(1, &raftpb.ConfState{Voters: []uint64{1}}, make([]byte, 1000+i), 2, 0)
		require.NoError(t, err)
		require.NoError(t, j.Append(point))
		if j.Grown() {
			require.NoError(t, j.Compact())
		}
		require.Less(t, j.note.end, int64(compactFrom+2000))
	}
	_, table, _, _ := open(t, disk.Crash(nil))
	require.Len(t, table.State, 1199)
}

func TestUnknownRecordIsOfANewerVersion(t *testing.T) {
	table := Bootstrap(&raftpb.ConfState{})
	require.ErrorIs(t, table.Apply(&persistv1.JournalRecord{}), ErrVersion)
}

// FuzzReplay feeds whatever bytes as frames. They have good checksums, so that
// the fuzzer gets to the records.
func FuzzReplay(f *testing.F) {
	for n := range aHistory(f) {
		frame, err := proto.Marshal(&persistv1.JournalFrame{Records: aHistory(f)[:n+1]})
		require.NoError(f, err)
		f.Add(frame, []byte{})
	}
	tables, err := Bootstrap(&raftpb.ConfState{Voters: []uint64{1}}).Records()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, frame, tail []byte) {
		table := &Table{}
		for _, r := range tables {
			require.NoError(t, table.Apply(r))
		}
		if _, err := table.applyFrame(frame); err == nil && table.Cut == nil {
			// What was accepted can be written and read again.
			records, err := table.Records()
			require.NoError(t, err)
			again := &Table{}
			for _, r := range records {
				require.NoError(t, again.Apply(r))
			}
			again.Clean = table.Clean
			requireSame(t, table, again)
		}
		s := salt(1)
		b := appendHead(nil, s, Note{})
		b, err := s.appendFrame(b, tables)
		require.NoError(t, err)
		_, _ = replay(append(b, tail...))
		_, _ = replay(tail)
	})
}
