package blob

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checked reads a part of a source for a store that sends it on. It never gives
// out the last bytes of a part whose checksum is wrong, so a receiver that was
// told the size knows that the part is not whole. It ends when its context does.
// It is not safe for use by several goroutines.
type Checked struct {
	ctx  context.Context
	src  io.ReaderAt
	at   int64
	left int64
	want uint32
	sum  uint32
	err  error
}

// NewChecked returns a reader of the size bytes of src from off on, which have
// the Castagnoli checksum crc32c.
func NewChecked(ctx context.Context, src io.ReaderAt, off, size int64, crc32c uint32) *Checked {
	c := &Checked{ctx: ctx, src: src, at: off, left: size, want: crc32c}
	if size == 0 {
		c.verify()
	}
	return c
}

// Read reads from the source.
func (c *Checked) Read(p []byte) (int, error) {
	switch {
	case c.err != nil:
		return 0, c.err
	case c.left == 0:
		return 0, io.EOF
	case c.ctx.Err() != nil:
		c.err = c.ctx.Err()
		return 0, c.err
	case len(p) == 0:
		return 0, nil
	}
	n, err := c.src.ReadAt(p[:min(int64(len(p)), c.left)], c.at)
	c.sum = crc32.Update(c.sum, castagnoli, p[:n])
	c.at += int64(n)
	c.left -= int64(n)
	switch {
	case c.left == 0:
		c.verify()
	case err != nil:
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		c.err = fmt.Errorf("read what is to be stored, %d bytes before its end: %w", c.left, err)
	}
	if c.err != nil {
		return 0, c.err
	}
	return n, nil
}

func (c *Checked) verify() {
	if c.sum != c.want {
		c.err = fmt.Errorf("%w: it is %08x, expected %08x", ErrChecksum, c.sum, c.want)
	}
}

// Err is why the source could not be read to its end, or nil. A transport that
// reads from c may hide it.
func (c *Checked) Err() error { return c.err }
