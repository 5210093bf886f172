package segment

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

// window reads a file forward through a buffer.
type window struct {
	r    io.ReaderAt
	size int64 // nothing at or after it is read
	buf  []byte
	from int64 // of what the buffer holds
	n    int
}

// at returns up to want bytes at pos, fewer only at the end. They are valid
// until the next call. want must not exceed the buffer.
func (w *window) at(pos int64, want int) ([]byte, error) {
	want = int(max(0, min(int64(want), w.size-pos)))
	if pos >= w.from && pos+int64(want) <= w.from+int64(w.n) {
		at := pos - w.from
		return w.buf[at : at+int64(want)], nil
	}
	n := int(max(0, min(int64(len(w.buf)), w.size-pos)))
	got, err := w.r.ReadAt(w.buf[:n], pos)
	if got < n && (err == nil || errors.Is(err, io.EOF)) {
		err = io.ErrUnexpectedEOF
	}
	if got < n {
		w.n = 0
		return nil, fmt.Errorf("read at %d: %w", pos, err)
	}
	w.from, w.n = pos, n
	return w.buf[:want], nil
}

// header returns the header at pos, and whether there is one whose batch lies
// within the file. raw is valid until the next call.
func (w *window) header(pos int64) (h recordbatch.Header, raw []byte, ok bool, err error) {
	raw, err = w.at(pos, HeaderSize)
	if err != nil {
		return h, nil, false, err
	}
	h, bad := recordbatch.ParseHeader(raw)
	return h, raw, bad == nil && int64(h.Size()) <= w.size-pos, nil
}

// checksum says whether the batch at pos, which lies within the file, is what
// its checksum says. It takes no memory in proportion to the batch.
func (w *window) checksum(pos int64, h recordbatch.Header) (bool, error) {
	end := pos + int64(h.Size())
	sum := uint32(0)
	for at := pos + checksumFrom; at < end; {
		b, err := w.at(at, int(min(int64(len(w.buf)), end-at)))
		if err != nil {
			return false, err
		}
		sum = crc32.Update(sum, castagnoli, b)
		at += int64(len(b))
	}
	return sum == h.CRC, nil
}
