package recordbatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Decompress appends the decompressed form of src to dst. What it appends is at
// most limits.MaxInflate bytes, and memory grows with what has been
// decompressed, not with the sizes that src claims.
func Decompress(codec Codec, dst, src []byte, limits Limits) ([]byte, error) {
	limit := limits.maxInflate()
	var err error
	switch codec {
	case None:
		if len(src) > limit {
			return dst, errInflate(limit)
		}
		return append(dst, src...), nil
	case Gzip:
		dst, err = gunzip(dst, src, limit)
	case Snappy:
		dst, err = unsnappy(dst, src, limit)
	case LZ4:
		dst, err = unlz4(dst, src, limit)
	case Zstd:
		dst, err = unzstd(dst, src, limit)
	default:
		return dst, fmt.Errorf("%w: %d", ErrCodec, int8(codec))
	}
	if err != nil && !errors.Is(err, ErrInflate) && !errors.Is(err, ErrMalformed) {
		err = fmt.Errorf("%w: %v: %w", ErrMalformed, codec, err)
	}
	return dst, err
}

func errInflate(limit int) error {
	return fmt.Errorf("%w: more than %d bytes", ErrInflate, limit)
}

// gzipSource and lz4Source are a decoder with the bytes that it reads, which are
// let go of before the pool keeps it.
type gzipSource struct {
	src     bytes.Reader
	decoder gzip.Reader
}

var gzipSources = sync.Pool{New: func() any { return new(gzipSource) }}

func gunzip(dst, src []byte, limit int) ([]byte, error) {
	s := gzipSources.Get().(*gzipSource)
	defer func() {
		s.src.Reset(nil)
		gzipSources.Put(s)
	}()
	s.src.Reset(src)
	if err := s.decoder.Reset(&s.src); err != nil {
		return dst, err
	}
	return readAll(dst, &s.decoder, len(src), limit)
}

type lz4Source struct {
	src     bytes.Reader
	decoder *lz4.Reader
}

var lz4Sources = sync.Pool{New: func() any { return &lz4Source{decoder: lz4.NewReader(nil)} }}

// unlz4 reads LZ4 frames. The broken header checksum of old Kafka clients
// belongs to formats 0 and 1 alone (KIP-57).
func unlz4(dst, src []byte, limit int) ([]byte, error) {
	s := lz4Sources.Get().(*lz4Source)
	defer func() {
		s.src.Reset(nil)
		s.decoder.Reset(nil) // gives the block buffer back
		lz4Sources.Put(s)
	}()
	s.src.Reset(src)
	s.decoder.Reset(&s.src)
	return readAll(dst, s.decoder, len(src), limit)
}

// readAll appends all of r to dst; src is how many compressed bytes there are.
func readAll(dst []byte, r io.Reader, src, limit int) ([]byte, error) {
	start := len(dst)
	dst = slices.Grow(dst, min(max(4*src, minInflate), limit))
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, min(len(dst)-start, max(1, limit-(len(dst)-start))))
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if len(dst)-start > limit {
			return dst[:start], errInflate(limit)
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst[:start], err
		}
	}
}

// minInflate is the least that is set aside for decompressed bytes.
const minInflate = 4 << 10

// zstdDecoder is shared: it decodes as many batches at once as there are CPUs
// and keeps as many buffers. It writes to the destination alone, up to its
// capacity, so a frame's claimed window costs nothing and may be the 128 MiB of
// the highest level.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(0),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxWindow(128<<20))
})

// maxZstdRatio is how much one byte of a zstd frame can become: a block of
// 128 KiB takes four bytes at least.
const maxZstdRatio = 128 << 10 / 4

func unzstd(dst, src []byte, limit int) ([]byte, error) {
	decoder, err := zstdDecoder()
	if err != nil {
		return dst, err
	}
	if len(src) == 0 {
		return dst, io.ErrUnexpectedEOF
	}
	room := min(max(4*len(src), minInflate), limit)
	var h zstd.Header
	if err := h.Decode(src); err == nil && h.HasFCS && h.FrameContentSize <= uint64(len(src))*maxZstdRatio {
		if h.FrameContentSize > uint64(limit) {
			return dst, errInflate(limit)
		}
		room = max(room, int(h.FrameContentSize))
	}
	room = max(room, min(limit, cap(dst)-len(dst)))
	for {
		dst = slices.Grow(dst, room)
		// The capacity is the limit, so it is cut to what is wanted.
		out, err := decoder.DecodeAll(src, dst[:len(dst):len(dst)+room])
		switch {
		case err == nil:
			return out, nil
		case !errors.Is(err, zstd.ErrDecoderSizeExceeded):
			return dst, err
		case room == limit:
			return dst, errInflate(limit)
		}
		room = min(4*room, limit)
	}
}

// xerialMagic starts the framing of snappy-java: two versions of four bytes,
// which writers disagree about and nobody needs, then blocks with their lengths.
const xerialMagic = "\x82SNAPPY\x00"

const xerialHeaderSize = len(xerialMagic) + 8

// maxSnappyRatio is how much one byte of a snappy block can become: a copy of 64
// bytes takes three.
const maxSnappyRatio = 22

func unsnappy(dst, src []byte, limit int) ([]byte, error) {
	if len(src) < xerialHeaderSize || string(src[:len(xerialMagic)]) != xerialMagic {
		return unsnappyBlock(dst, src, limit)
	}
	start := len(dst)
	src = src[xerialHeaderSize:]
	for len(src) > 0 {
		if len(src) < 4 {
			return dst[:start], io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(src)
		src = src[4:]
		if uint64(n) > uint64(len(src)) {
			return dst[:start], io.ErrUnexpectedEOF
		}
		var err error
		if dst, err = unsnappyBlock(dst, src[:n], limit-(len(dst)-start)); err != nil {
			return dst[:start], err
		}
		src = src[n:]
	}
	return dst, nil
}

func unsnappyBlock(dst, src []byte, limit int) ([]byte, error) {
	n, err := snappy.DecodedLen(src)
	switch {
	case err != nil:
		return dst, err
	case n > limit:
		return dst, errInflate(limit)
	case n > maxSnappyRatio*len(src):
		return dst, fmt.Errorf("%w: snappy: %d bytes cannot become %d", ErrMalformed, len(src), n)
	}
	dst = slices.Grow(dst, n)
	if _, err := snappy.Decode(dst[len(dst):len(dst)+n], src); err != nil {
		return dst, err
	}
	return dst[:len(dst)+n], nil
}
