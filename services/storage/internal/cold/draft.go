package cold

import (
	"fmt"
	"hash/crc32"
	"io"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
	"github.com/sluiceio/sluice/services/storage/internal/segment"
	"github.com/sluiceio/sluice/services/storage/internal/tier"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// An object's index has an entry for each indexInterval bytes, and no more than
// maxEntries: it is read whole.
const (
	indexInterval = 64 << 10
	maxEntries    = 4096
)

// indexOf is the origin of an object's index. Raft indexes mean nothing there.
func indexOf(base int64) segment.IndexOf { return segment.IndexOf{Base: base} }

// interval is the distance of index entries in an object of so many bytes.
func interval(size int64) int64 { return max(indexInterval, size/maxEntries) }

// Draft is an object that is to be uploaded: the end of a segment's file, and the
// index that it makes. Batches are added first, all from the first to the last;
// then it is read, and not changed any more.
type Draft struct {
	src     io.ReaderAt
	base    int64 // offset to begin at
	first   int64 // position of the first batch in src; -1: there is none yet
	segment tier.Segment
	builder segment.IndexBuilder
	entries []segment.IndexEntry
	batches uint64
	index   []byte
}

// NewDraft begins an object of the batches of src, which has size bytes, from an
// offset on.
func NewDraft(src io.ReaderAt, size, base int64) *Draft {
	return &Draft{
		src: src, base: base, first: -1,
		segment: tier.Segment{Object: tier.Object{Base: base}, Next: base},
		builder: segment.NewIndexBuilder(indexOf(base), interval(size), 0, -1, -1),
	}
}

// Add adds the next batch, which stands at a position of src. Those below the
// draft's base are left out.
func (d *Draft) Add(position int64, batch []byte) error {
	h, err := recordbatch.ParseHeader(batch)
	if err != nil {
		return fmt.Errorf("add to cold segment: %w", err)
	}
	if d.first < 0 {
		if h.NextOffset() <= d.base {
			return nil
		}
		d.first = position
	}
	s := &d.segment
	if h.BaseOffset < s.Next {
		return fmt.Errorf("add to cold segment: batch at offset %d, expected %d or more", h.BaseOffset, s.Next)
	}
	s.Gaps = s.Gaps || h.BaseOffset > s.Next
	if n := len(s.Epochs); n == 0 || s.Epochs[n-1].Term != uint64(h.LeaderEpoch) {
		start := h.BaseOffset
		if n == 0 {
			start = d.base // the first batch may stand behind a gap
		}
		s.Epochs = append(s.Epochs, tier.Epoch{Term: uint64(h.LeaderEpoch), Start: start})
	}
	e, due := d.builder.Add(segment.Batch{
		At:     segment.At{Position: position - d.first, Offset: h.BaseOffset, Index: d.batches},
		Header: h,
	})
	if due {
		d.entries = append(d.entries, e)
	}
	d.batches++
	s.Size = position - d.first + int64(len(batch))
	s.Next = h.NextOffset()
	s.CRC = crc32.Update(s.CRC, castagnoli, batch)
	return nil
}

// Finish ends the object at an offset, which may lie behind a gap, and tells what
// it holds. Of what the uploader knows, the rest is to be filled in.
func (d *Draft) Finish(next int64) (tier.Segment, error) {
	if d.segment.Size == 0 || next < d.segment.Next {
		return tier.Segment{}, fmt.Errorf("cold segment from offset %d: ends at %d, expected %d, with batches", d.base, d.segment.Next, next)
	}
	d.index = indexOf(d.base).AppendIndex(nil, true, d.entries)
	d.entries = nil
	s := &d.segment
	s.Gaps = s.Gaps || next > s.Next
	s.Next = next
	s.IndexSize = int64(len(d.index))
	s.CRC = crc32.Update(s.CRC, castagnoli, d.index)
	s.MaxTimestamp, s.MaxTimestampOffset = d.builder.Max()
	return *s, nil
}

// Size is that of the finished object.
func (d *Draft) Size() int64 { return d.segment.Size + d.segment.IndexSize }

// ReadAt reads the finished object.
func (d *Draft) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= d.Size() {
		return 0, io.EOF
	}
	n := 0
	if left := d.segment.Size - off; left > 0 {
		want := p[:min(int64(len(p)), left)]
		got, err := d.src.ReadAt(want, d.first+off)
		if got < len(want) {
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return got, err
		}
		n = got
	}
	if n < len(p) && off+int64(n) >= d.segment.Size {
		n += copy(p[n:], d.index[off+int64(n)-d.segment.Size:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
