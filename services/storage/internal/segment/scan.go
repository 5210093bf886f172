package segment

import (
	"io"
	"math"

	"github.com/sluiceio/sluice/services/kit/recordbatch"
)

const scanBuffer int64 = 128 << 10

// At is a place between two batches of a segment: where the next one begins, or
// would.
type At struct {
	Position int64
	Offset   int64
	Index    uint64
}

// Expect tells what belongs at a place. Entries that are no batch have indexes
// between those of batches: given the index after the previous batch, it returns
// that of the next one and its epoch. ok is false if no batch can come there.
type Expect func(at At) (index uint64, epoch int32, ok bool)

// ScanResult is where a scan ended.
type ScanResult struct {
	// End is the place after the last good batch. Index counts batches and what
	// Expect said, but not what comes after the last batch.
	End At
	// Bad says that something other than zeros follows which is no good batch.
	Bad bool
	// Chain says that beyond the bad batch there is a good one that belongs to
	// this log.
	Chain bool
}

// Scan checks batches from a place on until one is bad or the file, of a size,
// ends. It calls visit for each good one.
func Scan(r io.ReaderAt, size int64, from At, expect Expect, visit func(Batch)) (ScanResult, error) {
	w := &window{r: r, size: size, buf: make([]byte, max(HeaderSize, min(scanBuffer, size-from.Position)))}
	for at := from; ; {
		h, _, ok, err := w.header(at.Position)
		if err != nil {
			return ScanResult{}, err
		}
		index, epoch, expected := expect(at)
		fits := expected && h.BaseOffset == at.Offset && h.LeaderEpoch == epoch
		good := ok && fits
		if good {
			if good, err = w.checksum(at.Position, h); err != nil {
				return ScanResult{}, err
			}
		}
		if !good {
			return w.afterBad(at, h, epoch, ok && fits)
		}
		b := Batch{At: At{at.Position, at.Offset, index}, Header: h}
		visit(b)
		at = b.End()
	}
}

// IsBatch says whether a good batch with an epoch is at a place. Nothing at or
// after size is read.
func IsBatch(r io.ReaderAt, size int64, at At, epoch int32) (bool, error) {
	w := &window{r: r, size: size, buf: make([]byte, walkBuffer)}
	h, _, ok, err := w.header(at.Position)
	if err != nil || !ok || h.BaseOffset != at.Offset || h.LeaderEpoch != epoch {
		return false, err
	}
	return w.checksum(at.Position, h)
}

// Begins says whether a file begins with a whole batch of an offset, of whatever
// epoch.
func Begins(r io.ReaderAt, size, offset int64) (bool, error) {
	w := &window{r: r, size: size, buf: make([]byte, walkBuffer)}
	h, _, ok, err := w.header(0)
	if err != nil || !ok || h.BaseOffset != offset {
		return false, err
	}
	return w.checksum(0, h)
}

// afterBad tells the kinds of end apart. whole says that h is the header that was
// expected, of a batch that ends within the file.
func (w *window) afterBad(end At, h recordbatch.Header, epoch int32, whole bool) (ScanResult, error) {
	res := ScanResult{End: end}
	at := end.Position
	// Such a header tells where the next batch is. Looking into the bad one
	// could find batches that a producer sent as the value of a record. One that
	// passes the end of the file may have a rotten length, so there it is worth
	// the risk: what is taken for damage is repaired, what is cut is gone.
	if whole {
		res.Bad = true
		ok, err := w.belongs(at+int64(h.Size()), end.Offset, epoch)
		res.Chain = ok
		return res, err
	}
	for at < w.size {
		b, err := w.at(at, len(w.buf))
		if err != nil {
			return res, err
		}
		if blank(b) {
			at += int64(len(b))
			continue
		}
		res.Bad = true
		found, err := w.findBatch(at, len(b), end.Offset, epoch)
		if err != nil || found {
			res.Chain = found
			return res, err
		}
		at += int64(len(b))
	}
	return res, nil
}

// findBatch looks for a good batch that begins in the n bytes at pos and has an
// offset above the one given.
func (w *window) findBatch(pos int64, n int, offset int64, epoch int32) (bool, error) {
	for at := pos; at < pos+int64(n); at++ {
		b, err := w.at(at, HeaderSize)
		if err != nil || len(b) < HeaderSize {
			return false, err
		}
		if b[magicAt] != recordbatch.Magic {
			continue // spares parsing at almost every position
		}
		if ok, err := w.belongs(at, offset, epoch); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// belongs says whether a good batch begins at pos that can come after the offset
// and the epoch given.
func (w *window) belongs(pos, offset int64, epoch int32) (bool, error) {
	h, _, ok, err := w.header(pos)
	if err != nil || !ok || h.LeaderEpoch < epoch || h.BaseOffset <= offset || h.BaseOffset-offset > math.MaxInt32 {
		return false, err
	}
	return w.checksum(pos, h)
}

// Checksum says whether a batch that Walk found is what its checksum says.
func Checksum(r io.ReaderAt, b Batch) (bool, error) {
	buf := walkBuffers.Get().(*[walkBuffer]byte)
	defer walkBuffers.Put(buf)
	w := &window{r: r, size: b.End().Position, buf: buf[:]}
	return w.checksum(b.Position, b.Header)
}

// Walk steps over the batches from a place on, up to a size that holds only
// whole ones, without checking their checksums, and calls visit with each one until it
// returns false. Index does not count what is no batch. Walk says where it
// stopped: at the batch that visit refused, or the end. It fails with ErrCorrupt
// on bytes that are no batch.
func Walk(r io.ReaderAt, size int64, from At, visit func(Batch) bool) (At, error) {
	return walk(r, size, from, visit, func(base, expected int64) bool { return base == expected })
}

// WalkGaps is Walk over the batches of a segment that was compacted: offsets may
// be missing between them. The place of a batch has the offset that it begins
// with.
func WalkGaps(r io.ReaderAt, size int64, from At, visit func(Batch) bool) (At, error) {
	return walk(r, size, from, visit, func(base, least int64) bool { return base >= least })
}

func walk(r io.ReaderAt, size int64, from At, visit func(Batch) bool, fits func(base, next int64) bool) (At, error) {
	buf := walkBuffers.Get().(*[walkBuffer]byte)
	defer walkBuffers.Put(buf)
	w := &window{r: r, size: size, buf: buf[:]}
	at := from
	for at.Position < size {
		h, raw, ok, err := w.header(at.Position)
		if err != nil {
			return at, err
		}
		if !ok || !fits(h.BaseOffset, at.Offset) {
			return at, corrupt(at.Position)
		}
		at.Offset = h.BaseOffset
		b := Batch{At: at, Header: h, Raw: raw}
		if !visit(b) {
			return at, nil
		}
		at = b.End()
	}
	return at, nil
}
