package recordbatch

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compress appends the compressed form of src to dst. Snappy is one raw block,
// LZ4 one frame of blocks of 64 KiB: what every Kafka client reads.
func Compress(codec Codec, dst, src []byte) ([]byte, error) {
	switch codec {
	case None:
		return append(dst, src...), nil
	case Gzip:
		return gzipped(dst, src)
	case Snappy:
		dst = slices.Grow(dst, snappy.MaxEncodedLen(len(src)))
		out := snappy.Encode(dst[len(dst):cap(dst)], src)
		return dst[:len(dst)+len(out)], nil
	case LZ4:
		return lz4ed(dst, src)
	case Zstd:
		encoder, err := zstdEncoder()
		if err != nil {
			return dst, err
		}
		return encoder.EncodeAll(src, dst), nil
	}
	return dst, fmt.Errorf("%w: %d", ErrCodec, int8(codec))
}

var gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func gzipped(dst, src []byte) ([]byte, error) {
	z := gzipWriters.Get().(*gzip.Writer)
	defer gzipWriters.Put(z)
	out := bytes.NewBuffer(dst)
	z.Reset(out)
	if _, err := z.Write(src); err != nil {
		return dst, err
	}
	if err := z.Close(); err != nil {
		return dst, err
	}
	return out.Bytes(), nil
}

var lz4Writers = sync.Pool{New: func() any {
	z := lz4.NewWriter(nil)
	// Kafka's own reader takes independent blocks only, and no checksum of the
	// whole. Neither option can fail.
	_ = z.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false))
	return z
}}

func lz4ed(dst, src []byte) ([]byte, error) {
	z := lz4Writers.Get().(*lz4.Writer)
	defer lz4Writers.Put(z)
	out := bytes.NewBuffer(dst)
	z.Reset(out)
	if _, err := z.Write(src); err != nil {
		return dst, err
	}
	if err := z.Close(); err != nil {
		return dst, err
	}
	return out.Bytes(), nil
}

// zstdEncoder is shared: it encodes as many batches at once as there are CPUs
// and keeps as many states, each of them small because windows are.
var zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil,
		zstd.WithLowerEncoderMem(true),
		zstd.WithWindowSize(1<<20),
		zstd.WithEncoderCRC(false))
})
