package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	logv1 "github.com/sluiceio/sluice/gen/go/sluice/log/v1"
)

// batch is what goes into one request.
type batch struct {
	records []*logv1.ProduceRecord
	// Bytes of input that the records were made of.
	inputBytes int
}

// batchBuilder gathers records until a batch is full.
type batchBuilder struct {
	maxRecords, maxBytes int

	batch batch
	// Of keys and values.
	bytes int
}

func newBatchBuilder(maxRecords, maxBytes int) *batchBuilder {
	return &batchBuilder{maxRecords: maxRecords, maxBytes: maxBytes}
}

// fits reports whether the record may join the batch. An empty batch takes any.
func (b *batchBuilder) fits(record *logv1.ProduceRecord) bool {
	if len(b.batch.records) == 0 {
		return true
	}
	return len(b.batch.records) < b.maxRecords && b.bytes+recordBytes(record) <= b.maxBytes
}

func (b *batchBuilder) add(record *logv1.ProduceRecord, inputBytes int) {
	b.batch.records = append(b.batch.records, record)
	b.batch.inputBytes += inputBytes
	b.bytes += recordBytes(record)
}

// take hands the batch over and begins a new one.
func (b *batchBuilder) take() batch {
	taken := b.batch
	b.batch, b.bytes = batch{}, 0
	return taken
}

func recordBytes(record *logv1.ProduceRecord) int {
	return len(record.GetKey()) + len(record.GetValue())
}

// lineReader turns lines into batches. It hands a batch over when it is full,
// and when the next line is not there yet, so that a slow source is not held
// back. It reads ahead by one batch.
type lineReader struct {
	in           io.Reader
	shape        recordShape
	builder      *batchBuilder
	maxLineBytes int

	// Closed at the end of the input, or at the first line that is no record.
	batches chan batch
	// Why, and what the end of the input left nil. Read it after the close.
	err error
}

func (r *lineReader) run(ctx context.Context) {
	defer close(r.batches)
	in := bufio.NewReaderSize(r.in, max(64<<10, r.builder.maxBytes))
	for number := 1; ; number++ {
		line, size, err := r.line(in)
		if errors.Is(err, io.EOF) && size == 0 {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			r.err = fmt.Errorf("line %d: %w", number, err)
			break
		}
		record, err := r.shape.record(line)
		if err != nil {
			r.err = fmt.Errorf("line %d: %w", number, err)
			break
		}
		if !r.builder.fits(record) && !r.hand(ctx) {
			return
		}
		r.builder.add(record, size)
		if !lineBuffered(in) && !r.hand(ctx) {
			return
		}
	}
	r.hand(ctx)
}

// hand gives the batch to the sender. It reports whether there still is one.
func (r *lineReader) hand(ctx context.Context) bool {
	taken := r.builder.take()
	if len(taken.records) == 0 {
		return true
	}
	select {
	case r.batches <- taken:
		return true
	case <-ctx.Done():
		return false
	}
}

var errLineTooLong = errors.New("longer than --max-line-bytes")

// line reads a line of its own memory, without its newline, and the number of
// bytes that it took. The last line may end with the input.
func (r *lineReader) line(in *bufio.Reader) ([]byte, int, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > r.maxLineBytes+1 {
			return nil, len(line) + len(part), errLineTooLong
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			size := len(line)
			return bytes.TrimSuffix(line, []byte("\n")), size, err
		}
	}
}

func lineBuffered(in *bufio.Reader) bool {
	buffered, err := in.Peek(in.Buffered())
	return err == nil && bytes.IndexByte(buffered, '\n') >= 0
}
