package s3

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/sluiceio/sluice/services/kit/blob"
)

var errEnded = errors.New("the request is over")

// sourceError is a source that could not be read, or was not what it should be:
// no fault of the server or of the way there.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }

func (e *sourceError) Unwrap() error { return e.err }

// body is what a request sends. A transport may go on reading when it has
// answered already, from another goroutine; the source is its caller's again
// after end.
type body struct {
	mu struct {
		sync.Mutex
		checked *blob.Checked
		ended   bool
	}
}

func newBody(ctx context.Context, src io.ReaderAt, off, size int64, crc32c uint32) *body {
	b := &body{}
	b.mu.checked = blob.NewChecked(ctx, src, off, size, crc32c)
	return b
}

// Read reads from the source.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.ended {
		return 0, errEnded
	}
	return b.mu.checked.Read(p)
}

// end ends reading, and returns why the source could not be read.
func (b *body) end() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.ended = true
	if err := b.mu.checked.Err(); err != nil {
		return &sourceError{err}
	}
	return nil
}
